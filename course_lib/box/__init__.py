"""Be a cluster: two nodes in one machine that answer the commands of Slurm."""
