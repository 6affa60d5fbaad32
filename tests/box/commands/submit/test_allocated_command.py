"""The command of salloc. The test controls the other end of its allocation."""

from __future__ import annotations

import signal
import socket

import pytest

from course_lib.box.commands.submit import salloc
from course_lib.box.queue import state


@pytest.fixture
def allocation(home):
    """Both ends of a connection to the nodes of a job (ours and the command's), and the job."""
    kept = {number: signal.getsignal(number) for number in range(1, signal.NSIG) if number < 32}
    job_id = state.submit({"kind": "salloc"})
    job = state.read_job(job_id)
    ours, theirs = socket.socketpair()
    yield ours, theirs, job
    for number, handler in kept.items():
        if number not in (signal.SIGKILL, signal.SIGSTOP) and handler is not None:
            signal.signal(number, handler)
    ours.close()
    theirs.close()


def run(theirs: socket.socket, job, text: str) -> tuple[int, bool]:
    return salloc.run_with_nodes(theirs, job, ["sh", "-c", text], "")


def test_the_exit_code_of_the_command_is_kept(allocation):
    _, theirs, job = allocation
    assert run(theirs, job, "exit 7") == (7, False)


def test_a_command_goes_on_without_its_nodes(allocation, capfd):
    ours, theirs, job = allocation
    ours.close()
    assert run(theirs, job, "sleep 0.2; exit 3") == (3, True)
    assert "salloc: Job allocation 1 has been revoked.\n" in capfd.readouterr().err
