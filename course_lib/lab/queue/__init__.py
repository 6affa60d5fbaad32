"""Asking Slurm: its client, what it says of jobs, and how a job is submitted."""
