"""Additions to a Jupyter server: private kernels and self-contained pages."""
