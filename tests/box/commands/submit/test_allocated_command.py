"""The command of salloc, with the other end of its allocation in the test's hands."""

from __future__ import annotations

import os
import signal
import socket

import pytest

from course_lib.box.commands.submit.salloc import AllocatedCommand
from course_lib.box.queue import state


@pytest.fixture
def allocation(home):
    """A running command's connection to its nodes: our end, and the command."""
    kept = {number: signal.getsignal(number) for number in range(1, signal.NSIG) if number < 32}
    job_id = state.submit({"kind": "salloc"})
    job = state.read_job(job_id)
    ours, theirs = socket.socketpair()
    yield ours, AllocatedCommand(theirs, job)
    for number, handler in kept.items():
        if number not in (signal.SIGKILL, signal.SIGSTOP) and handler is not None:
            signal.signal(number, handler)
    ours.close()
    theirs.close()


def run(command: AllocatedCommand, text: str) -> int:
    return command.run("/bin/sh", ["sh", "-c", text], "", dict(os.environ))


def test_the_exit_code_of_the_command_is_kept(allocation):
    _, command = allocation
    assert os.WEXITSTATUS(run(command, "exit 7")) == 7
    assert not command.revoked


def test_a_command_goes_on_without_its_nodes(allocation, capfd):
    ours, command = allocation
    ours.close()
    assert os.WEXITSTATUS(run(command, "sleep 0.2; exit 3")) == 3
    assert command.revoked
    assert "salloc: Job allocation 1 has been revoked.\n" in capfd.readouterr().err
