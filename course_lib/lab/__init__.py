"""Run: recipes, sites, scripts and runs; the client of Slurm."""
