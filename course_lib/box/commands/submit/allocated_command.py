"""The command that salloc runs, and what becomes of it and of its nodes."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
from contextlib import suppress

from course_lib.box import bin_dir, settings
from course_lib.box.commands.shared.errors import Failure
from course_lib.box.commands.shared.option_values import signal_number
from course_lib.box.processes import inherited, messages
from course_lib.box.processes.event_loop import Loop
from course_lib.box.queue import state
from course_lib.box.queue.records import Allocation, Job
from course_lib.box.steps.srun import connect
from course_lib.box.supervisor.job_variables import asked_for, job_and_nodes, repeated

PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
LEFT_TO_THE_COMMAND = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
)


def kill_signal(given: dict[str, str]) -> int:
    """What the command gets when the nodes are taken away (-K); 0: only a shell with a terminal is
    told, by SIGHUP."""
    if "kill-command" not in given:
        return 0
    text = given["kill-command"]
    number = signal_number(text) if text else int(signal.SIGTERM)
    if not number:
        raise Failure(f"Invalid job signal: {text}", code=255)
    return number


def run(job: Job, words: list[str], folder: str, kill: int, quiet: bool) -> int:
    """The exit code of the command; 1 where a signal ended it."""
    connection = connect(job.id, {"do": "attach"})
    if connection is None:
        print(f"salloc: Job allocation {job.id} has been revoked.", file=sys.stderr)
        return 1
    path = shutil.which(words[0])
    if path is None:
        status = 1 << 8
        print(f'salloc: error: _fork_command: Unable to find command "{words[0]}"', file=sys.stderr)
    else:
        path = os.path.abspath(path)  # of this folder, not of --chdir
        parts = state.read_allocation(job.id)
        command = AllocatedCommand(connection, job, kill)
        status = command.run(path, words, folder, _environment(job, parts))
        if command.revoked:
            return _code(status)
    if not quiet:
        print(f"salloc: Relinquishing job allocation {job.id}", file=sys.stderr)
    code = _code(status)
    with suppress(messages.Gone):
        messages.send(connection, {"do": "complete", "status": status})
        connection.settimeout(None)
        messages.receive(connection)  # until its nodes are free, so that the next command gets them
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
    """Waits for two things at once: the end of the command, and that of its nodes."""

    def __init__(self, connection: socket.socket, job: Job, kill: int) -> None:
        self.connection = connection
        self.job = job
        self.kill = kill
        self.loop = Loop()
        self.status = 0
        self.revoked = False
        self.terminal = os.isatty(0)

    def run(self, path: str, words: list[str], folder: str, environment: dict[str, str]) -> int:
        """Its wait status."""
        woken, waking = socket.socketpair()
        woken.setblocking(False)
        waking.setblocking(False)
        signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in PASSED_ON:
            signal.signal(number, lambda *_: None)
        # One that comes while the child is not yet the command has to wait, or it would be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
        self.pid = os.fork()
        if not self.pid:
            self._become(path, words, folder, environment)
        with suppress(OSError):
            os.setpgid(self.pid, self.pid)  # the child does it too; whoever is first
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        for number in LEFT_TO_THE_COMMAND:
            signal.signal(number, signal.SIG_IGN)
        self.loop.on_input(woken, lambda: self._woken(woken))
        self.loop.on_input(self.connection, self._nodes_are_gone)
        self.loop.run()
        # Before its socket is closed: whatever file got its number would be written to.
        signal.set_wakeup_fd(-1)
        if self.terminal:
            with suppress(OSError):
                os.tcsetpgrp(0, os.getpgrp())
        return self.status

    def _become(
        self, path: str, words: list[str], folder: str, environment: dict[str, str]
    ) -> None:
        try:
            os.setpgid(0, 0)
            if self.terminal:
                signal.signal(signal.SIGTTOU, signal.SIG_IGN)
                os.tcsetpgrp(0, os.getpid())
            inherited.reset_signals()
            if folder:
                os.chdir(folder)
            os.execve(path, words, environment)
        except OSError as error:
            print(f"salloc: error: {words[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(1)

    def _woken(self, woken: socket.socket) -> None:
        for number in woken.recv(64):
            if number in PASSED_ON:
                self._send(number)
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.status = status
            self.loop.stop()

    def _send(self, number: int) -> None:
        with suppress(OSError):
            os.killpg(self.pid, number)

    def _nodes_are_gone(self) -> None:
        self.loop.forget(self.connection)
        self.revoked = True
        job = state.read_job(self.job.id)
        why = f"Job allocation {self.job.id} has been revoked."
        if job is not None and job.state == "TIMEOUT":
            why = (
                f"Job {self.job.id} has exceeded its time limit and its allocation has been"
                " revoked."
            )
        print(f"salloc: {why}", file=sys.stderr, flush=True)
        if self.kill:
            self._send(self.kill)
        elif self.terminal:
            self._send(signal.SIGHUP)
