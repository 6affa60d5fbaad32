"""sbatch and srun: from options to a job."""
