"""The client of Slurm, the state of jobs, and the submission of a job."""
