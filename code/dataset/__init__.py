"""Samples that a rank trains on, from tokenised text on the disk."""
