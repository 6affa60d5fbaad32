"""`read.slurm`: what squeue, sinfo, sacct and scontrol print."""
