"""Be a cluster: two nodes in one machine that answer the commands of Slurm.

Words of commands/, dispatch/, scheduling/ and queue/:

pass        one look over the waiting jobs, which gives nodes to those whose turn it is
dispatcher  the background process of a box that runs a pass when a begin time comes, and notices
            jobs that died; it ends when nothing is left to wait for
upkeep      what each command does before it answers: ends dead jobs, starts a dispatcher
dead job    one whose supervisor (the process that runs it) was killed; it becomes NODE_FAIL
lost job    one that still runs though its state file was lost; its processes are ended
held        a job that waits until it is released; "holding nodes": running or completing
view        a job or node as a command shows it, with what follows from its record
"""

from __future__ import annotations


def bin_dir() -> str:
    """Folder with sbatch, srun, squeue … to be put in front of the PATH."""
    import os

    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")
