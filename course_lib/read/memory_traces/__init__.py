"""`read.memory`: memory over time, in any of the forms in which it is recorded."""
