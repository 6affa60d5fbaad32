"""`read.nccl`: communicators, channels and rings, from what NCCL printed."""
