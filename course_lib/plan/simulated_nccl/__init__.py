"""The log that NCCL would print on a cluster that one describes."""
