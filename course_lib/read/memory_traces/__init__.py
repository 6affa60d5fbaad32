"""`read.memory`: memory over time, from any recorded format."""
