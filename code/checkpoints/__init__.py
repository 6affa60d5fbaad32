"""Checkpoints that any layout can write, check and read."""
