"""Parallel layers by hand and with PyTorch's own tools; both compute the same."""
