"""Links between devices, their speeds, and the groups of ranks that work together."""
