"""`read.profile`: times of the parts of a step, from PyTorch's profiler traces."""
