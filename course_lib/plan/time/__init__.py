"""Seconds: of a kernel, a layer, a collective, an iteration."""
