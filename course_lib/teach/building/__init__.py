"""Lessons, as they are written, become notebooks with gaps and with answers."""
