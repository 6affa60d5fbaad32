"""Measured and published runs, and the errors of predictions for them."""
