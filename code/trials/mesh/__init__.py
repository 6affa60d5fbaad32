"""A model in plain PyTorch that torch's own tools divide over a mesh, and the exercise's test."""
