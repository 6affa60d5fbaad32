"""The model, the optimizer, the learning rate, and reasons to end."""
