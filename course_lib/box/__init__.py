"""Be a cluster: two nodes in one machine that answer the commands of Slurm."""

from __future__ import annotations


def bin_dir() -> str:
    """Folder with sbatch, srun, squeue … to be put in front of the PATH."""
    import os

    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")
