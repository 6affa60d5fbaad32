"""Which line means what: the wordings of PyTorch, NCCL, gloo, Slurm and others."""
