"""The box: two nodes in one machine that answer the commands of Slurm.

Terms used in this package:

- command: one run of sbatch, squeue, srun …; it uses the state file (SQLite) and ends.
- pass: giving free nodes to the jobs whose turn it is; a process that changes the queue runs one.
- dispatcher: background process that runs a pass at begin times and detects dead jobs.
- upkeep: work of each command before it answers: end dead jobs, start a dispatcher.
- dead job: its supervisor was killed.
- supervisor: one process per running job, which makes its nodes, runs it and reports its end.
- guard, first process: below the supervisor; when one dies, the kernel kills all below it.
- step daemon: parent of the tasks of one step, or of the batch script (Slurm's slurmstepd).
- warm process: has torch loaded; if a supervisor is its fork, Python programs start at once.
- flat mode: without namespaces; the nodes are only names and share the machine's network.
"""

from __future__ import annotations


def bin_dir() -> str:
    """Return the folder with sbatch, srun, squeue …, for use at the front of the PATH."""
    import os

    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")


def with_bin_dir(path: bytes) -> bytes:
    """Return a PATH that has the commands, in front of a Slurm on the same machine."""
    folder = bin_dir().encode("utf-8", "surrogateescape")
    return path if folder in path.split(b":") else b":".join(filter(None, (folder, path)))
