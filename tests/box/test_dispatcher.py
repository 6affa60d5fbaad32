"""The dispatcher waits for events that no process announces."""

from __future__ import annotations

import os
import pty


def in_a_terminal_that_hangs_up(box, *command):
    """Run a command alone in its terminal, like a notebook's `!command`."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(box.work)
        os.execvpe(command[0], command, box.environment)
    try:
        while os.read(terminal, 1000):
            continue
    except OSError:
        pass
    os.close(terminal)
    assert os.waitpid(pid, 0)[1] == 0


def test_it_outlives_the_terminal_of_the_command_that_started_it(make_box):
    box = make_box()
    job = box.submit("echo it has begun", "--begin=now+2")
    in_a_terminal_that_hangs_up(box, "squeue")
    box.until_said(job, "it has begun")  # no command asks meanwhile
