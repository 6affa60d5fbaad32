"""Runs that somebody measured and published, and how far predictions lie from them."""
