"""The commands sbatch, srun and salloc: from options to a job."""
