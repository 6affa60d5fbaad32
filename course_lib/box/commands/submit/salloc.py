"""The salloc command: get nodes for a shell or command here, which starts its steps with srun."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress

from course_lib.box import settings, with_bin_dir
from course_lib.box.commands.command_line import Failure
from course_lib.box.commands.submit import admission
from course_lib.box.commands.submit.options import Gathered
from course_lib.box.dispatch import upkeep
from course_lib.box.processes import control, messages
from course_lib.box.queue import state
from course_lib.box.queue.records import FINAL_STATES, Job
from course_lib.box.supervisor.variables import asked_for, job_and_nodes, repeated

PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
LEFT_TO_THE_COMMAND = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
)
LOOK_S = 0.05
USAGE = "salloc [options] [command [arguments of the command]]"


def run(arguments: list[str]) -> int:
    gathered = Gathered("salloc", "a", "SALLOC_")
    pairs, command = gathered.syntax.parse(arguments)
    gathered.apply_environment()
    gathered.apply(pairs, "command line")
    given = gathered.given
    gathered.say_notes()
    quiet = "quiet" in given
    fields = {"name": "interactive", "kind": "salloc", **gathered.fields}
    job_id = state.submit(admission.complete(fields, gathered))
    upkeep.run_pass()
    job = _wait_for_nodes(job_id, quiet)
    _say(f"Granted job allocation {job_id}", quiet)
    code = _run_command(job, command or [_users_shell()], given.get("chdir", ""), quiet)
    upkeep.run_pass()
    return code


def _say(text: str, quiet: bool = False) -> None:
    if not quiet:
        print(f"salloc: {text}", file=sys.stderr, flush=True)


def _users_shell() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    except KeyError:
        return os.environ.get("SHELL", "/bin/sh")


def _wait_for_nodes(job_id: int, quiet: bool) -> Job:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    caught = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    for number in caught:
        signal.signal(number, signal.default_int_handler)  # raises KeyboardInterrupt
    try:
        if job := admission.wait_for_nodes("salloc", job_id, quiet):
            for number in caught:
                signal.signal(number, signal.SIG_DFL)
            return job
    except KeyboardInterrupt:
        state.mark_cancelled(job_id, os.getuid())
        _say("Job aborted due to signal", quiet)
        _say(f"Job allocation {job_id} has been revoked.", quiet)
        raise Failure() from None
    ended = state.read_job(job_id)
    if ended is None or ended.state in FINAL_STATES:
        _say("Job has been cancelled", quiet)
    _say(f"Job allocation {job_id} has been revoked.", quiet)
    raise Failure(f"{admission.VERBS['salloc']}: Job/step already completing or completed")


def _run_command(job: Job, words: list[str], folder: str, quiet: bool) -> int:
    """Run the command and return its exit code; 1 if a signal ended it."""
    connection = control.connect(job.id, {"do": "attach"})
    if connection is None:
        _say(f"Job allocation {job.id} has been revoked.")
        return 1
    code, revoked = run_with_nodes(connection, job, words, folder)
    if revoked:
        return code
    _say(f"Relinquishing job allocation {job.id}", quiet)
    with suppress(messages.Gone):
        messages.send(connection, {"do": "complete", "status": code << 8})
        connection.settimeout(None)
        messages.receive(connection)  # waits until the nodes are free
    return code


def run_with_nodes(
    connection: socket.socket, job: Job, words: list[str], folder: str
) -> tuple[int, bool]:
    """Run a command until it ends. Return its exit code, and whether its nodes were gone before."""
    path = shutil.which(words[0])
    if path is None:
        _say(f'error: _fork_command: Unable to find command "{words[0]}"')
        return 1, False
    try:
        process = subprocess.Popen(
            words,
            executable=os.path.abspath(path),  # relative to this folder, not to --chdir
            cwd=folder or None,
            env=_environment(job),
        )
    except OSError as error:
        _say(f"error: {words[0]}: {error.strerror}")
        return 1, False
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: process.send_signal(number))
    for number in LEFT_TO_THE_COMMAND:
        signal.signal(number, signal.SIG_IGN)
    revoked = False
    while process.poll() is None:
        if not revoked and select.select([connection], [], [], LOOK_S)[0]:
            revoked = True  # the supervisor has said so, or is dead
            _say_why_revoked(job.id)
            if os.isatty(0):
                process.send_signal(signal.SIGHUP)
        elif revoked:
            process.wait()
    return (process.returncode if process.returncode >= 0 else 1), revoked


def _say_why_revoked(job_id: int) -> None:
    job = state.read_job(job_id)
    if job is not None and job.state == "TIMEOUT":
        _say(f"Job {job_id} has exceeded its time limit and its allocation has been revoked.")
    else:
        _say(f"Job allocation {job_id} has been revoked.")


def _environment(job: Job) -> dict[str, str]:
    parts = state.read_allocation(job.id)
    path = with_bin_dir(os.environb.get(b"PATH", b"/usr/bin:/bin"))
    found = {
        **job_and_nodes(job, parts, settings.load().cluster),
        "PATH": os.fsdecode(path),
        "SLURM_NNODES": str(len(parts)),
        "SLURM_SUBMIT_DIR": os.getcwd(),
        "SLURM_SUBMIT_HOST": os.uname().nodename.partition(".")[0],
        "SLURM_TASKS_PER_NODE": repeated([part.tasks for part in parts]),
        **asked_for(job),
    }
    return {**os.environ, **{name: text for name, text in found.items() if text}}
