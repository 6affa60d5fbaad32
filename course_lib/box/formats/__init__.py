"""Fields of jobs, steps, nodes and partitions as Slurm names, words and lays them out."""
