"""Parallel layers by hand beside the same with PyTorch's own tools; both compute the same."""
