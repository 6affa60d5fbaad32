"""Command line: the flags, their ranges and their combinations."""
