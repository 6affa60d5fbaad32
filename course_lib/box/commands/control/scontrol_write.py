"""scontrol write: the script of a job, into a file."""

from __future__ import annotations

import sys

from course_lib.box.commands.control.scontrol_call import UNKNOWN_JOB, ScontrolCall, complain
from course_lib.box.commands.control.scontrol_show import meant_jobs
from course_lib.box.commands.shared import job_words
from course_lib.box.queue import arrays, rows


def write(call: ScontrolCall) -> int:
    words = call.words[1:]
    meant = job_words.read(words[1]) if len(words) > 1 else None
    if meant is None or not "batch_script".startswith(words[0]):
        return complain("invalid write argument")
    with rows.snapshot() as db:
        found = meant_jobs(arrays.members(db, meant.job_id), meant)
        job = rows.job(db, found[0].id) if found else None
    if job is None or not job.script:
        return complain(f"job script retrieval failed: {UNKNOWN_JOB}") - 1
    target = words[2] if len(words) > 2 else f"slurm-{job.id}.sh"
    if target == "-":
        sys.stdout.buffer.write(job.script)
        return 0
    with open(target, "wb") as file:
        file.write(job.script)
    print(f"batch script for job {job.id} written to {target}")
    return 0
