"""`read.slurm`: output of squeue, sinfo, sacct and scontrol."""
