"""Starts jobs whose turn it is and notices those that died; above the queue."""
