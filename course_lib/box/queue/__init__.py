"""State of every job and step, and the order in which they get their nodes."""
