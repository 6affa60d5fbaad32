"""Memory of each pipeline stage, for any code base and for the course's own program."""
