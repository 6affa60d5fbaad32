"""Build notebooks with gaps and with answers from the lessons' sources."""
