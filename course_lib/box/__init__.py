"""Be a cluster: two nodes in one machine that answer the commands of Slurm.

The words of this room:

- command: one run of sbatch, squeue, srun …; it uses the state file (SQLite) and is gone again.
- pass: giving free nodes to the jobs whose turn it is; whoever changes the queue runs one.
- dispatcher: background process that runs a pass when a begin time comes and notices dead jobs.
- upkeep: what each command does before it answers: ends dead jobs, starts a dispatcher.
- dead job: its supervisor was killed; lost job: it runs, but its state file is gone.
- supervisor: the process that answers for one running job, from its nodes to its last line.
- guard, first process: below the supervisor; when one dies, the kernel kills all below it.
- step daemon: parent of the tasks of one step, or of the batch script (Slurm's slurmstepd).
- warm process: has torch loaded; a supervisor that is its fork starts Python programs at once.
- stand-in: runs in a job where `python` is asked for, and gets a fork of the warm process.
- flat mode: without namespaces; the nodes are names, and share the machine's network.
"""

from __future__ import annotations


def bin_dir() -> str:
    """Folder with sbatch, srun, squeue … to be put in front of the PATH."""
    import os

    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")
