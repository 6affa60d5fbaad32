"""Runs: following, reading, comparing and deleting them."""
