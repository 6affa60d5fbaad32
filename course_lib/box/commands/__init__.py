"""What the user types: sbatch, srun, squeue, scancel, sinfo, scontrol and sacct."""
