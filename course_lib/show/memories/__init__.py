"""Memory of a device: over time, at the peak, and as the micro-batch grows."""
