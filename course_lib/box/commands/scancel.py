"""The scancel command: end jobs and steps, or send them a signal."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from course_lib.box.commands import job_filter
from course_lib.box.commands.command_line import Failure, Syntax
from course_lib.box.commands.submit.options import signal_number
from course_lib.box.dispatch import upkeep
from course_lib.box.processes import control
from course_lib.box.queue import arrays, state, store
from course_lib.box.queue.records import FINAL_STATES, PENDING, RUNNING, Job
from course_lib.box.queue.store import StateError

USAGE = "scancel [options] [job id[.step id]...]"
SYNTAX = Syntax(
    "scancel",
    "account,A=! batch,b clusters|cluster,M=! ctld! full,f help hurry,H! interactive,i! me name,n="
    " nodelist,w=! partition,p= quiet,Q qos,q=! reservation,R=! sibling=! signal,s= state,t= usage"
    " user,u= verbose,v! version,V wckey=! jobname=!",
)
FILTERS = ("name", "partition", "state", "user", "me")
SIGNAL_KILL = 9
# Slurm's error number, reduced to a byte, is the exit code of its scancel.
TRY_AGAIN_CODE = 228
GONE = "Invalid job id specified"


class Target:
    """A job, some tasks of an array, or a step."""

    def __init__(self, word: str) -> None:
        self.word = word
        number, dot, step = word.partition(".")
        meant = job_filter.read_word(number)
        if meant is None or not meant.job_id or (dot and not step.isdigit()):
            raise Failure(f"Invalid job id {word}")
        self.job_id, self.tasks = meant.job_id, meant.tasks
        self.step = step

    def jobs(self) -> list[Job]:
        """Return all rows of the target. A row of waiting tasks may include other tasks."""
        with store.snapshot() as db:
            return arrays.members(db, self.job_id, self.tasks)


def run(arguments: list[str]) -> int:
    pairs, words = SYNTAX.parse(arguments)
    options = {name: value or "" for name, value in pairs}
    filtered = any(name in options for name in FILTERS)
    if not words and not filtered:
        raise Failure("No job identification provided")
    targets = [Target(item) for word in words for item in _split(word)]
    number = _signal(options)
    upkeep.try_to_bring_up_to_date()
    if filtered:
        targets = _chosen(options, targets)
    codes = [_act(target, number, options) for target in targets]
    with suppress(StateError):  # the supervisor of an ended job makes a pass too
        upkeep.run_pass()
    return max(codes, default=0)


def _split(word: str) -> list[str]:
    """Split `1,2` into words; keep `3_[0-2]` as one word."""
    return job_filter.split_words(word) or [word]


def _signal(options: dict[str, str]) -> int:
    """Return the number of --signal, or 0 to end the job the usual way."""
    if "signal" not in options:
        return 0
    number = signal_number(options["signal"])
    if not number:
        print(f"Unknown job signal: {options['signal']}", file=sys.stderr)
        raise Failure()
    return number


def _chosen(options: dict[str, str], targets: list[Target]) -> list[Target]:
    choice = job_filter.JobFilter(options)
    choice.states = _states(options.get("state", "PENDING,RUNNING,SUSPENDED"))
    choice.ids = [job_filter.JobWord(target.job_id, target.tasks) for target in targets] or None
    choice.users = _users(options)
    choice.names = {options["name"]} if "name" in options else None
    choice.sort = "i"
    steps = [target for target in targets if target.step]
    return steps or [Target(_word(view.job)) for view in choice.views()]


def _word(job: Job) -> str:
    if job.array_waiting:
        return f"{job.array_job_id}_[{job.array_waiting}]"
    return f"{job.array_job_id}_{job.array_task}" if job.array_task >= 0 else str(job.id)


def _states(text: str) -> set[str]:
    try:
        found = job_filter.states(text)
    except Failure:
        found = set()
    if not found or found - {PENDING, RUNNING, "SUSPENDED"}:
        print(
            f"Invalid job state specified: {text}\n"
            "Valid job states are PENDING, RUNNING, and SUSPENDED",
            file=sys.stderr,
        )
        raise Failure()
    return found


def _users(options: dict[str, str]) -> set[str] | None:
    if "me" in options:
        return {str(os.getuid())}
    users = {options["user"]} if "user" in options else None
    for user in job_filter.unknown_users(users):
        raise Failure(f"Invalid user name: {user}")
    return users


def _act(target: Target, number: int, options: dict[str, str]) -> int:
    jobs = target.jobs()
    plain = not number or (number == SIGNAL_KILL and not {"batch", "full"} & options.keys())
    if target.step:
        return _signal_step(target, jobs, number or SIGNAL_KILL, options)
    over = bool(number and jobs) and all(job.state in FINAL_STATES for job in jobs)
    if plain and "batch" not in options and not over:
        for job in jobs:
            _cancel(job, target.tasks)
        return 0
    if not jobs:
        return _failed("job id", target, GONE, options)
    codes = [_signal_job(target, job, number or SIGNAL_KILL, options) for job in jobs]
    return max(codes) if len(jobs) == 1 else min(codes)


def _cancel(job: Job, tasks: frozenset[int] | None) -> None:
    """Cancel one job. An ended job is not an error, as in Slurm."""
    try:
        before = state.mark_cancelled(job.id, os.getuid(), tasks)
    except StateError:  # the job's own output may have filled the disk
        if control.send(job.id, {"do": "cancel"}) is None:
            raise
        return
    if before is not None and before.state == RUNNING:
        control.send(job.id, {"do": "cancel"})


def _signal_job(target: Target, job: Job, number: int, options: dict[str, str]) -> int:
    if job.state in FINAL_STATES:
        return _failed("job id", target, GONE, options)
    if job.state == PENDING:
        _failed("job id", target, "Job can not be altered now, try again later", options)
        return TRY_AGAIN_CODE
    to = "batch" if "batch" in options else "full" if "full" in options else "steps"
    control.send(job.id, {"do": "signal", "signal": number, "to": to, "step": None})
    return 0


def _signal_step(target: Target, jobs: list[Job], number: int, options: dict[str, str]) -> int:
    running = [
        step.job_id
        for job in jobs
        for step in state.read_steps(job.id)
        if step.step == target.step and not step.end_s
    ]
    if not running:
        return _failed("job step id", target, GONE, options)
    for job in [job for job in jobs if job.id in running]:
        if number == SIGNAL_KILL:
            state.mark_step_cancelled(job.id, target.step, os.getuid())
        request = {"do": "signal", "signal": number, "to": "step", "step": target.step}
        control.send(job.id, request)
    return 0


def _failed(what: str, target: Target, why: str, options: dict[str, str]) -> int:
    if "quiet" not in options:
        print(f"scancel: error: Kill job error on {what} {target.word}: {why}", file=sys.stderr)
    return 1
