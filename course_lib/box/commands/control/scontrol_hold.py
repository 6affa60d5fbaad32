"""scontrol hold, release and requeue."""

from __future__ import annotations

import os

from course_lib.box.commands.control.scontrol_call import ENDED, ScontrolCall
from course_lib.box.processes import control
from course_lib.box.queue import pending_jobs
from course_lib.box.queue.records import FINAL_STATES, PENDING, RUNNING, Job

PREFIX = "slurm_suspend"
"""Slurm's own name of the request, in which it repeats what is wrong."""


def hold(call: ScontrolCall) -> int:
    """By root so that only root can release it; `holdu` and `uhold` hold as the user does."""
    by_user = call.words[0].lower() != "hold" or os.getuid()

    def act(job: Job) -> str:
        if job.state in FINAL_STATES:
            return ENDED
        pending_jobs.hold(job, "user" if by_user else "admin")
        return ""

    return call.each_job(act, PREFIX)


def release(call: ScontrolCall) -> int:
    def act(job: Job) -> str:
        if job.state in FINAL_STATES:
            return ENDED
        if job.hold:
            pending_jobs.release(job.id)
        return ""

    return call.each_job(act, PREFIX)


def requeue(call: ScontrolCall) -> int:
    return call.each_job(lambda job: _requeue(job, "requeue"))


def requeue_and_hold(call: ScontrolCall) -> int:
    return call.each_job(lambda job: _requeue(job, "hold"))


def _requeue(job: Job, how: str) -> str:
    if job.state == PENDING:
        return "Job is pending execution"
    if job.kind != "batch" or not job.requeue:
        return "Requested operation is presently disabled"
    pending_jobs.ask_requeue(job.id, how)
    if job.state == RUNNING or job.completing:
        control.send(job.id, {"do": "requeue"})
    return ""
