"""The commands of Slurm that the box does not do: each says what to do instead."""

from __future__ import annotations

from course_lib.box.commands.shared.errors import Failure

INSTEAD = {
    "sacctmgr": "Accounts, users and limits are a cluster's; here every job runs under your own"
    " name. `sacct` shows what ran, `scontrol show config` what is set.",
    "sattach": "What a step prints is in the output of its job: `tail -f slurm-<job id>.out`.",
    "scrontab": "Submit with `sbatch --begin=…`; a script may submit itself again.",
    "sdiag": "No daemon's load could be shown: `squeue --start` tells when jobs begin.",
    "sgather": "All nodes of the box see the same files: they lie where the job wrote them.",
    "sh5util": "Profiles of jobs are not gathered: `sacct -o jobid,maxrss,totalcpu` shows what each"
    " step used.",
    "smap": "`squeue` and `sinfo` show the same as text.",
    "sreport": "`sacct -S <day> -X -o jobid,user,elapsed,alloccpus` lists what it would add up.",
    "strigger": "Let a job wait for another (`sbatch --dependency=afterany:<job id>`), or use"
    " `sbatch --wait`.",
    "sview": "`squeue` and `sinfo` show the same as text.",
}


def run(command: str) -> int:
    raise Failure(f"the box does not do {command}; a real Slurm does. {INSTEAD[command]}")
