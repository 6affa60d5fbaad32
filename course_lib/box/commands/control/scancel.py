"""scancel: end jobs and steps, or send them a signal."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from course_lib.box import hostlist
from course_lib.box.commands.shared import job_filter
from course_lib.box.commands.shared.errors import Failure, Unsupported
from course_lib.box.commands.shared.getopt import Syntax
from course_lib.box.commands.shared.option_values import signal_number
from course_lib.box.dispatch import passes, upkeep
from course_lib.box.queue import state
from course_lib.box.queue.records import FINAL_STATES, PENDING, RUNNING, Job
from course_lib.box.queue.store import StateError

USAGE = "scancel [options] [job id[.step id]...]"
SYNTAX = Syntax(
    "scancel",
    "account,A= batch,b clusters,M= ctld cron full,f help hurry,H interactive,i me name,n="
    " nodelist,w= partition,p= quiet,Q qos,q= reservation,R= sibling= signal,s= state,t= usage"
    " user,u= verbose,v version,V wckey= jobname=",
)
FILTERS = (
    "account name jobname nodelist partition qos reservation state user me wckey".split()  # noqa: SIM905
)
SIGNAL_KILL = 9
TRY_AGAIN_CODE = 228
"""Slurm's error number, cut to a byte, is what its scancel exits with."""
GONE = "Invalid job id specified"


class Target:
    """A job, or one step of it."""

    def __init__(self, word: str) -> None:
        self.word = word
        number, dot, step = word.partition(".")
        array = number.partition("_")
        if not array[0].isdigit() or (dot and not step.isdigit()):
            raise Failure(f"Invalid job id {word}")
        self.job_id = int(array[0])
        self.step = step


def run(arguments: list[str]) -> int:
    pairs, words = SYNTAX.parse(arguments)
    options = {name: value or "" for name, value in pairs}
    for name in ("clusters", "sibling", "cron"):
        if name in options:
            raise Unsupported(f"--{name}")
    filtered = any(name in options for name in FILTERS)
    if not words and not filtered:
        raise Failure("No job identification provided")
    targets = [Target(item) for word in words for item in _split(word)]
    number = _signal(options)
    upkeep.try_to_bring_up_to_date()
    if filtered:
        targets = _chosen(options, targets)
    codes = [_act(target, number, options) for target in targets]
    with suppress(StateError):  # who ends a job makes a pass too
        passes.run_pass()
    return max(codes, default=0)


def _split(word: str) -> list[str]:
    """`1,2`, `3.[0-2]`."""
    return hostlist.expand(word) or [word]


def _signal(options: dict[str, str]) -> int:
    """0 where the job is to be ended the usual way."""
    if "signal" not in options:
        return 0
    number = signal_number(options["signal"])
    if not number:
        print(f"Unknown job signal: {options['signal']}", file=sys.stderr)
        raise Failure()
    return number


def _chosen(options: dict[str, str], targets: list[Target]) -> list[Target]:
    choice = job_filter.JobFilter(options)
    choice.states = _states(options.get("state", ""))
    choice.ids = {target.job_id for target in targets}
    choice.users = _users(options)
    name = options.get("name", options.get("jobname", ""))
    choice.names = {name} if name else set()
    choice.sort = "i"
    steps = [target for target in targets if target.step]
    return steps or [Target(str(view.job.id)) for view in choice.views()]


def _states(text: str) -> set[str]:
    if not text:
        return {PENDING, RUNNING, "SUSPENDED"}
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


def _users(options: dict[str, str]) -> set[str]:
    if "me" in options:
        return {str(os.getuid())}
    users = job_filter.words(options.get("user", ""))
    for user in job_filter.unknown_users(users):
        raise Failure(f"Invalid user name: {user}")
    return users


def _act(target: Target, number: int, options: dict[str, str]) -> int:
    job = state.read_job(target.job_id)
    if "interactive" in options and job is not None and not _agreed(job, target):
        return 0
    if target.step:
        return _signal_step(target, job, number or SIGNAL_KILL, options)
    plain = not number or (number == SIGNAL_KILL and not {"batch", "full"} & options.keys())
    if plain and "batch" not in options:
        return _cancel(target, job, options)
    return _signal_job(target, job, number or SIGNAL_KILL, options)


def _agreed(job: Job, target: Target) -> bool:
    what = f"job_id={job.id} name={job.name} partition={job.partition}"
    kind = f"Cancel step_id={target.word}" if target.step else "Cancel"
    while True:
        print(f"{kind} {what} [y/n]? ", end="", flush=True)
        answer = sys.stdin.readline()
        if answer.strip().lower() in ("y", "yes"):
            return True
        if not answer or answer.strip().lower() in ("n", "no"):
            return False


def _cancel(target: Target, job: Job | None, options: dict[str, str]) -> int:
    """A job that is over or unknown is no error, as in Slurm; -v says so."""
    from course_lib.box.processes import control

    verbose = "verbose" in options
    if verbose:
        print(f"scancel: Terminating job {target.word}", file=sys.stderr)
    try:
        before = state.mark_cancelled(target.job_id, os.getuid())
    except StateError:  # this job itself may be what fills the disk
        if control.send(target.job_id, {"do": "cancel"}) is None:
            raise
        return 0
    if before is None or before.state in FINAL_STATES:
        if verbose:
            why = GONE if before is None else "Job/step already completing or completed"
            print(f"scancel: error: Kill job error on job id {target.word}: {why}", file=sys.stderr)
        return 0
    if before.state == RUNNING:
        control.send(target.job_id, {"do": "cancel"})
    return 0


def _signal_job(target: Target, job: Job | None, number: int, options: dict[str, str]) -> int:
    if job is None or job.state in FINAL_STATES:
        return _failed("job id", target, GONE, options)
    if job.state == PENDING:
        _failed("job id", target, "Job can not be altered now, try again later", options)
        return TRY_AGAIN_CODE
    to = "batch" if "batch" in options else "full" if "full" in options else "steps"
    return _send(target, {"do": "signal", "signal": number, "to": to, "step": None}, options)


def _signal_step(target: Target, job: Job | None, number: int, options: dict[str, str]) -> int:
    steps = state.read_steps(target.job_id) if job else []
    running = [step for step in steps if step.step == target.step and not step.end_s]
    if not running:
        return _failed("job step id", target, GONE, options)
    if number == SIGNAL_KILL:
        state.mark_step_cancelled(target.job_id, target.step, os.getuid())
    request = {"do": "signal", "signal": number, "to": "step", "step": target.step}
    return _send(target, request, options)


def _send(target: Target, request: dict[str, object], options: dict[str, str]) -> int:
    from course_lib.box.processes import control

    if "verbose" in options:
        what = "step" if target.step else "job"
        print(f"scancel: Signal {request['signal']} to {what} {target.word}", file=sys.stderr)
    control.send(target.job_id, request)
    return 0


def _failed(what: str, target: Target, why: str, options: dict[str, str]) -> int:
    if "quiet" not in options:
        print(f"scancel: error: Kill job error on {what} {target.word}: {why}", file=sys.stderr)
    return 1
