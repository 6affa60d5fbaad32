"""salloc: nodes for a shell or a command that runs here and starts its steps with srun."""

from __future__ import annotations

import os
import signal
import sys

from course_lib.box.commands.shared.errors import Failure
from course_lib.box.commands.submit import admission, waiting_for_nodes
from course_lib.box.commands.submit.option_sources import Gathered
from course_lib.box.dispatch import passes
from course_lib.box.queue import state, store
from course_lib.box.queue.records import FINAL_STATES, RUNNING, Job

USAGE = "salloc [options] [command [arguments of the command]]"
REFUSED = "Job submit/allocate failed"


class Interrupted(Exception):
    """A signal came while it waited for its nodes."""


def run(arguments: list[str]) -> int:
    gathered = Gathered("salloc", "a", "SALLOC_")
    pairs, command = gathered.syntax.parse(arguments)
    gathered.apply_environment()
    gathered.apply(pairs, "command line")
    given = gathered.given
    if "help" in given:
        from course_lib.box.commands import helptext

        print(helptext.of("salloc", USAGE))
        return 0
    gathered.say_notes()
    job = _allocation(gathered)
    if "no-shell" in given:
        return 0
    from course_lib.box.commands.submit import allocated_command

    words = command or [_users_shell()]
    kill = allocated_command.kill_signal(given)
    code = allocated_command.run(job, words, given.get("chdir", ""), kill, "quiet" in given)
    passes.run_pass()
    return code


def _allocation(gathered: Gathered) -> Job:
    """Submits the job, and waits until it has its nodes."""
    given = gathered.given
    shell, quiet = "no-shell" not in given, "quiet" in given
    fields = {
        "name": "interactive" if shell else "no-shell",
        "kind": "salloc" if shell else "no-shell",
        **gathered.fields,
    }
    immediate_s = _immediate(given)
    job_id = state.submit(admission.complete(fields, gathered))
    passes.run_pass()
    job = _wait_for_nodes(job_id, immediate_s, quiet)
    _say(f"Granted job allocation {job_id}", quiet)
    return job


def _say(text: str, quiet: bool) -> None:
    if not quiet:
        print(f"salloc: {text}", file=sys.stderr, flush=True)


def _immediate(given: dict[str, str]) -> float | None:
    """Seconds that it waits for its nodes at most; None: as long as it takes."""
    if "immediate" not in given:
        return None
    text = given["immediate"]
    if text and not text.isdigit():
        raise Failure(f'Invalid numeric value "{text}" for immediate.')
    return float(text or 1)


def _users_shell() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    except KeyError:
        return os.environ.get("SHELL", "/bin/sh")


def _wait_for_nodes(job_id: int, immediate_s: float | None, quiet: bool) -> Job:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    store.stay_with_folder()
    try:
        return _granted(job_id, immediate_s, quiet)
    except Interrupted:
        state.mark_cancelled(job_id, os.getuid())
        _say("Job aborted due to signal", quiet)
        _say(f"Job allocation {job_id} has been revoked.", quiet)
        raise Failure() from None


def _interrupt(_: int, __: object) -> None:
    raise Interrupted


def _granted(job_id: int, immediate_s: float | None, quiet: bool) -> Job:
    def tell_queued(job: Job) -> None:
        if job.hold:
            _say("Job is in held state, pending scheduler release", quiet)
        _say(f"Pending job allocation {job_id}", quiet)
        _say(f"job {job_id} queued and waiting for resources", quiet)

    job, told = waiting_for_nodes.wait(job_id, immediate_s, tell_queued)
    if job is None or job.state != RUNNING:
        if job is None or job.state in FINAL_STATES:
            _say("Job has been cancelled", quiet)
        _say(f"Job allocation {job_id} has been revoked.", quiet)
        raise Failure(f"{REFUSED}: Job/step already completing or completed")
    if told:
        _say(f"job {job_id} has been allocated resources", quiet)
    return job
