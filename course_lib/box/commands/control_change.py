"""The half of scontrol that changes jobs: hold, release, requeue, update."""

from __future__ import annotations

import os
import sys

from course_lib.box import settings
from course_lib.box.commands import refusal
from course_lib.box.commands.changes import CHANGES
from course_lib.box.commands.failure import Failure, Unsupported
from course_lib.box.queue import access, heal, schedule, waiting
from course_lib.box.queue.records import FINAL_STATES, PENDING, RUNNING, Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from course_lib.box.commands.scontrol import Request

GONE = "Invalid job id specified"
ENDED = "Job has already finished"


def _each(request: Request, act: Callable[[Job], str], suffix: str = "") -> int:
    """Applies to every job named by number (`1,2`) or name; the first trouble is the result."""
    if len(request.words) < 2:
        print(f"too few arguments for keyword:{request.words[0]}", file=sys.stderr)
        return 1
    heal.heal()
    code = 0
    for given in ",".join(request.words[1:]).split(","):
        key, equals, value = given.partition("=")
        word = value if equals and "jobid".startswith(key.lower()) and len(key) > 2 else given
        jobs = _named(word)
        troubles = [act(job) for job in jobs] if jobs else [GONE]
        for trouble in filter(None, troubles):
            if not request.quiet:
                print(f"{trouble} for job {word}", file=sys.stderr)
                if suffix:
                    print(f"{suffix} error: {trouble}", file=sys.stderr)
            code = 1
    schedule.run_pass()
    return code


def _named(word: str) -> list[Job]:
    with access.snapshot() as db:
        if word.isdigit():
            return access.jobs(db, "id = ?", (int(word),))
        key, _, value = word.partition("=")
        name = value if key.lower() in ("name", "jobname") else ""
        return access.jobs(db, "name = ? AND state = 'PENDING'", (name,)) if name else []


def _hold(kind: str) -> Callable[[Request], int]:
    def put(request: Request) -> int:
        def act(job: Job) -> str:
            if job.state in FINAL_STATES:
                return ENDED
            held = "user" if kind == "user" or os.getuid() else "admin"
            with access.transaction() as db:
                reason = "JobHeldUser" if held == "user" else "JobHeldAdmin"
                values = {"reason": reason} if job.state == PENDING else {}
                access.change(db, job.id, hold=held, eligible_s=0.0, **values)
            return ""

        return _each(request, act, "slurm_suspend")

    return put


def _release(request: Request) -> int:
    def act(job: Job) -> str:
        if job.state in FINAL_STATES:
            return ENDED
        if job.hold:
            waiting.release(job.id)
        return ""

    return _each(request, act, "slurm_suspend")


def _requeue(how: str) -> Callable[[Request], int]:
    def put(request: Request) -> int:
        def act(job: Job) -> str:
            if job.state == PENDING:
                return "Job is pending execution"
            if job.kind != "batch" or not job.requeue:
                return "Requested operation is presently disabled"
            _ask_requeue(job, how)
            return ""

        return _each(request, act)

    return put


def _ask_requeue(job: Job, how: str) -> None:
    from course_lib.box.processes import control

    waiting.ask_requeue(job.id, how)
    if job.state == RUNNING or job.completing:
        control.send(job.id, {"do": "requeue"})


def _update(request: Request) -> int:
    words = request.words[1:]
    if not words:
        print("too few arguments for update keyword", file=sys.stderr)
        return 1
    if words[0].lower() in ("job", "jobid") and len(words) > 1:
        words = [f"JobId={words[1]}", *words[2:]]
    pairs = [(word.partition("=")[0].lower(), word.partition("=")[2]) for word in words]
    first = pairs[0][0]
    if first in ("nodename", "partitionname", "reservationname", "stepid", "slurmctlddebug"):
        raise Unsupported(f"scontrol update {words[0].partition('=')[0]}")
    if "=" not in words[0] or not ("jobid".startswith(first) and first.startswith("job")):
        print(
            "No valid entity in update command\n"
            'Input line must include "NodeName", "PartitionName", "Reservation", "JobId", or'
            ' "SlurmctldDebug"',
            file=sys.stderr,
        )
        return 1
    changes = [
        _change(name, value, words[place]) for place, (name, value) in enumerate(pairs[1:], 1)
    ]
    inner = type(request)(["update", pairs[0][1]], {})

    def act(job: Job) -> str:
        return _apply(job, changes)

    return _each(inner, act)


def _change(name: str, value: str, word: str) -> tuple[str, str]:
    full = [known for known in CHANGES if known.startswith(name)]
    if name not in CHANGES and len(full) != 1:
        print(
            f"Update of this parameter is not supported: {word}\nRequest aborted", file=sys.stderr
        )
        raise Failure()
    return (name if name in CHANGES else full[0]), value


def _apply(job: Job, changes: list[tuple[str, str]]) -> str:
    from course_lib.box.processes import control

    if job.state in FINAL_STATES:
        return ENDED
    fields: dict[str, object] = {}
    for name, value in changes:
        trouble = CHANGES[name](job, value, fields)
        if trouble:
            return trouble
    if fields:
        known = {name: getattr(job, name) for name in Job.fields()}
        changed = Job(**(known | fields))
        try:
            if job.state == PENDING:
                box = settings.load()
                refusal.check_names(changed, box)
                refusal.check_limits(changed, box)
        except refusal.Refused as refused:
            return refused.why
        with access.transaction() as db:
            access.change(db, job.id, **fields)
        if job.state == RUNNING:
            control.send(job.id, {"do": "reload"})
    return ""


COMMANDS: dict[str, Callable[[Request], int]] = {
    "hold": _hold("own"),
    "holdu": _hold("user"),
    "uhold": _hold("user"),
    "release": _release,
    "requeue": _requeue("requeue"),
    "requeuehold": _requeue("hold"),
    "update": _update,
}
