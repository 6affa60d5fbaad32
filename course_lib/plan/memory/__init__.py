"""Bytes on each pipeline stage, of any code base and of the course's own program."""
