"""Model, optimizer, learning rate, and reasons to end."""
