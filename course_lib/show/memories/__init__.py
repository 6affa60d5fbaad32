"""What fills a device's memory: over time, at the peak, and as the micro-batch grows."""
