"""Checkpoints: written by any layout, checked, and read by any other."""
