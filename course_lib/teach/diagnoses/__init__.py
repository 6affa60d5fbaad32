"""What may be wrong with a run: how each kind is called, what it looks like, and what cures it."""
