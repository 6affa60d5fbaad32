"""Times of a kernel, a layer, a collective and an iteration."""
