"""`read.profile`: where the time of a step goes, from PyTorch's profiler traces."""
