"""`read.nccl`: communicators, channels and rings from NCCL's log."""
