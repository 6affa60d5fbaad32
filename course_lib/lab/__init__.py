"""The lab: recipes, sites, scripts and runs, and the client of Slurm."""
