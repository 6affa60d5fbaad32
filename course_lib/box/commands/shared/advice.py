"""What to do instead of what the box refuses."""

from __future__ import annotations

GENERAL = "Leave it out here, and keep it for the cluster that it was written for."
OF_OPTIONS = {
    "bb": "Files lie on the one disk of this machine: read and write them where they are.",
    "bbf": "Files lie on the one disk of this machine: read and write them where they are.",
    "bcast": "Leave it out: all nodes of the box see the same files.",
    "clusters": "Leave it out: the box is the only cluster here.",
    "container": "Leave it out: a job runs in the environment that it is submitted from.",
    "cores-per-socket": "Ask for CPUs with --cpus-per-task.",
    "deadline": "Give a time limit with --time.",
    "extra-node-info": "Ask for CPUs with --cpus-per-task.",
    "get-user-env": "Use --export=NONE, and set in the script what the job needs.",
    "gid": "Leave it out: jobs of the box run as the user who submits them.",
    "gpus-per-socket": "Use --gpus-per-node.",
    "het-group": "Submit the parts as jobs of their own.",
    "multi-prog": "Start a script that looks at SLURM_PROCID.",
    "no-allocate": "Leave it out: srun makes the job that it needs.",
    "nodefile": "Name the nodes with --nodelist.",
    "ntasks-per-core": "Use --ntasks-per-node.",
    "ntasks-per-socket": "Use --ntasks-per-node.",
    "prolog": "Put the command into the script, before srun.",
    "epilog": "Put the command into the script, after srun.",
    "sockets-per-node": "Ask for CPUs with --cpus-per-task.",
    "task-prolog": "Start a script that runs the command first.",
    "task-epilog": "Start a script that runs the command last.",
    "tmp": "Leave it out: `df /tmp` shows what is free.",
    "uid": "Leave it out: jobs of the box run as the user who submits them.",
    "cluster": "Leave it out: the box is the only cluster here.",
    "completion": "Leave it out: sacct without it shows jobs that have ended.",
    "cron": "Submit with --begin.",
    "env-vars": "Let the script begin with `env`.",
    "federation": "Leave it out: the box is the only cluster here.",
    "json": "Choose columns with --format (-o) and read those.",
    "sibling": "Leave it out: the box is the only cluster here.",
    "yaml": "Choose columns with --format (-o) and read those.",
    "x11": "Save figures to files: jobs have no display.",
}


SEVERAL_PARTS = "Submit the parts as jobs of their own."
SEVERAL_STEPS = "Start each with an srun of its own."
OF_SCONTROL = {
    "create": "There is one partition, and nothing to reserve.",
    "delete": "There is one partition, and nothing to reserve.",
    "listpids": "In a job, `ps` shows its processes.",
    "notify": "Write to a file that the job looks at.",
    "pidinfo": "In a job, `ps` shows its processes.",
    "resume": "A job that is stopped with `scancel --signal=STOP` goes on with `--signal=CONT`.",
    "suspend": "`scancel --signal=STOP` stops the steps of a job, `--signal=CONT` lets them go on.",
    "top": "`scontrol update jobid=… priority=…` moves a job.",
    "wait_job": "A job begins when its nodes are ready.",
}
NOTHING_TO_MANAGE = "There is no daemon to manage here: what can be set stands in box.toml."


def of_scontrol(word: str) -> str:
    return OF_SCONTROL.get(word, NOTHING_TO_MANAGE)


def of_option(name: str) -> str:
    return OF_OPTIONS.get(name, GENERAL)
