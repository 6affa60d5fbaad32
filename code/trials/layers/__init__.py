"""Tests of layers and matmuls, with their gradients."""
