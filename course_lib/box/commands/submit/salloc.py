"""The salloc command: get nodes for a shell or command here, which starts its steps with srun."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress

from course_lib.box import bin_dir, settings
from course_lib.box.commands.command_line import Failure
from course_lib.box.commands.submit import admission
from course_lib.box.commands.submit.options import Gathered
from course_lib.box.dispatch import upkeep
from course_lib.box.processes import messages, roles
from course_lib.box.queue import state, store
from course_lib.box.queue.records import FINAL_STATES, RUNNING, Allocation, Job
from course_lib.box.steps.srun import connect
from course_lib.box.supervisor.variables import asked_for, job_and_nodes, repeated

PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
LEFT_TO_THE_COMMAND = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
)


def run_command(job: Job, words: list[str], folder: str, quiet: bool) -> int:
    """Run the command and return its exit code; 1 if a signal ended it."""
    connection = connect(job.id, {"do": "attach"})
    if connection is None:
        print(f"salloc: Job allocation {job.id} has been revoked.", file=sys.stderr)
        return 1
    path = shutil.which(words[0])
    if path is None:
        status = 1 << 8
        print(f'salloc: error: _fork_command: Unable to find command "{words[0]}"', file=sys.stderr)
    else:
        path = os.path.abspath(path)  # relative to this folder, not to --chdir
        parts = state.read_allocation(job.id)
        command = AllocatedCommand(connection, job)
        status = command.run(path, words, folder, _environment(job, parts))
        if command.revoked:
            return _code(status)
    if not quiet:
        print(f"salloc: Relinquishing job allocation {job.id}", file=sys.stderr)
    code = _code(status)
    with suppress(messages.Gone):
        messages.send(connection, {"do": "complete", "status": status})
        connection.settimeout(None)
        messages.receive(connection)  # waits until the nodes are free
    return code


def _code(status: int) -> int:
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1


def _environment(job: Job, parts: list[Allocation]) -> dict[str, str]:
    path = os.environ.get("PATH", "/usr/bin:/bin")
    found = {
        **job_and_nodes(job, parts, settings.load().cluster),
        "PATH": path if bin_dir() in path.split(":") else f"{bin_dir()}:{path}",
        "SLURM_NNODES": str(len(parts)),
        "SLURM_NODE_ALIASES": "(null)",
        "SLURM_SUBMIT_DIR": os.getcwd(),
        "SLURM_SUBMIT_HOST": os.uname().nodename.partition(".")[0],
        "SLURM_TASKS_PER_NODE": repeated([part.tasks for part in parts]),
        **asked_for(job),
    }
    return {**os.environ, **{name: text for name, text in found.items() if text}}


class AllocatedCommand:
    """A command that uses the nodes. It waits for its own end or the end of its nodes."""

    def __init__(self, connection: socket.socket, job: Job) -> None:
        self.connection = connection
        self.job = job
        self.revoked = False
        self.terminal = os.isatty(0)

    def run(self, path: str, words: list[str], folder: str, environment: dict[str, str]) -> int:
        """Run the command and return its wait status."""
        # Block signals until the child runs the command. Earlier signals would be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
        try:
            self.process = subprocess.Popen(
                words,
                executable=path,
                cwd=folder or None,
                env=environment,
                preexec_fn=self._lead_group,  # noqa: PLW1509  no thread runs yet
            )
        except OSError as error:
            print(f"salloc: error: {words[0]}: {error.strerror}", file=sys.stderr, flush=True)
            return 1 << 8
        for number in PASSED_ON:
            signal.signal(number, lambda number, _: self._send(number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        for number in LEFT_TO_THE_COMMAND:
            signal.signal(number, signal.SIG_IGN)
        ended, ending = os.pipe()
        threading.Thread(target=self._wait, args=(ending,), daemon=True).start()
        watched: list[int | socket.socket] = [ended, self.connection]
        if ended not in select.select(watched, [], [])[0]:
            self._nodes_are_gone()
        code = self.process.wait()
        os.close(ended)
        if self.terminal:
            with suppress(OSError):
                os.tcsetpgrp(0, os.getpgrp())
        return code << 8 if code >= 0 else -code

    def _lead_group(self) -> None:
        """Make the child lead its own process group. This runs before the command starts."""
        os.setpgid(0, 0)
        if self.terminal:
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            os.tcsetpgrp(0, os.getpid())
        roles.reset_signals()

    def _send(self, number: int) -> None:
        with suppress(OSError):
            os.killpg(self.process.pid, number)

    def _wait(self, ending: int) -> None:
        self.process.wait()
        os.close(ending)

    def _nodes_are_gone(self) -> None:
        """Report that the nodes are gone: the supervisor has said so, or is dead."""
        self.revoked = True
        job = state.read_job(self.job.id)
        why = f"Job allocation {self.job.id} has been revoked."
        if job is not None and job.state == "TIMEOUT":
            why = (
                f"Job {self.job.id} has exceeded its time limit and its allocation has been"
                " revoked."
            )
        print(f"salloc: {why}", file=sys.stderr, flush=True)
        if self.terminal:
            self._send(signal.SIGHUP)


USAGE = "salloc [options] [command [arguments of the command]]"
REFUSED = "Job submit/allocate failed"


class Interrupted(Exception):
    """A signal arrived during the wait for nodes."""


def run(arguments: list[str]) -> int:
    gathered = Gathered("salloc", "a", "SALLOC_")
    pairs, command = gathered.syntax.parse(arguments)
    gathered.apply_environment()
    gathered.apply(pairs, "command line")
    given = gathered.given
    if "help" in given:
        from course_lib.box.commands import main

        print(main.help_of("salloc", USAGE, gathered.syntax))
        return 0
    gathered.say_notes()
    job = _allocation(gathered)
    if "no-shell" in given:
        return 0

    words = command or [_users_shell()]
    code = run_command(job, words, given.get("chdir", ""), "quiet" in given)
    upkeep.run_pass()
    return code


def _allocation(gathered: Gathered) -> Job:
    """Submit the job and wait until it has its nodes."""
    given = gathered.given
    shell, quiet = "no-shell" not in given, "quiet" in given
    fields = {
        "name": "interactive" if shell else "no-shell",
        "kind": "salloc" if shell else "no-shell",
        **gathered.fields,
    }
    job_id = state.submit(admission.complete(fields, gathered))
    upkeep.run_pass()
    job = _wait_for_nodes(job_id, quiet)
    _say(f"Granted job allocation {job_id}", quiet)
    return job


def _say(text: str, quiet: bool) -> None:
    if not quiet:
        print(f"salloc: {text}", file=sys.stderr, flush=True)


def _users_shell() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    except KeyError:
        return os.environ.get("SHELL", "/bin/sh")


def _wait_for_nodes(job_id: int, quiet: bool) -> Job:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    store.stay_with_folder()
    try:
        return _granted(job_id, quiet)
    except Interrupted:
        state.mark_cancelled(job_id, os.getuid())
        _say("Job aborted due to signal", quiet)
        _say(f"Job allocation {job_id} has been revoked.", quiet)
        raise Failure() from None


def _interrupt(_: int, __: object) -> None:
    raise Interrupted


def _granted(job_id: int, quiet: bool) -> Job:
    def tell_queued(job: Job) -> None:
        if job.hold:
            _say("Job is in held state, pending scheduler release", quiet)
        _say(f"Pending job allocation {job_id}", quiet)
        _say(f"job {job_id} queued and waiting for resources", quiet)

    job, told = admission.wait_for_nodes(job_id, tell_queued)
    if job is None or job.state != RUNNING:
        if job is None or job.state in FINAL_STATES:
            _say("Job has been cancelled", quiet)
        _say(f"Job allocation {job_id} has been revoked.", quiet)
        raise Failure(f"{REFUSED}: Job/step already completing or completed")
    if told:
        _say(f"job {job_id} has been allocated resources", quiet)
    return job
