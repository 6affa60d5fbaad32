"""srun --pty: task 0 gets a terminal of its own, and srun's terminal becomes its window."""

from __future__ import annotations

import fcntl
import os
import signal
import termios
import tty
from collections.abc import Callable
from contextlib import suppress

from course_lib.box.steps.streams import write_all
from course_lib.box.steps.task_ends import say

CHUNK_BYTES = 16 * 1024
Reader = Callable[[int, Callable[[], None]], None]


def make() -> Terminal | None:
    """None where srun has no terminal itself."""
    if os.isatty(0):
        return Terminal()
    say("error: ioctl(TIOCGWINSZ): Inappropriate ioctl for device")
    say("error: Not using a pseudo-terminal, disregarding --pty option")
    return None


class Terminal:
    """`own` is our end, `task` that of task 0."""

    def __init__(self) -> None:
        self.own, self.task = os.openpty()
        self.copy_size()
        self.settings = termios.tcgetattr(0)
        termios.tcsetattr(self.task, termios.TCSANOW, self.settings)

    def copy_size(self) -> None:
        with suppress(OSError):
            size = fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))
            fcntl.ioctl(self.own, termios.TIOCSWINSZ, size)

    def files(self, task: int) -> list[int]:
        """Streams of a task. Others than task 0 have nothing to read, and nobody reads them."""
        if task:
            return [os.open(os.devnull, os.O_RDWR) for _ in range(3)]
        return [os.dup(self.task) for _ in range(3)]

    def begin(
        self, read_from: Reader, stop_reading: Callable[[int], None], closed: Callable[[], None]
    ) -> None:
        """From here on every key goes to the task, Ctrl-C too; `closed` when nobody there has the
        terminal open any more."""
        os.close(self.task)
        tty.setraw(0, termios.TCSADRAIN)  # what was typed ahead stays
        signal.signal(signal.SIGWINCH, lambda *_: self.copy_size())

        def show() -> None:
            try:
                data = os.read(self.own, CHUNK_BYTES)
            except OSError:
                data = b""
            write_all(1, data)
            if not data:
                stop_reading(self.own)
                closed()

        def type_in() -> None:
            """The end of our input is Ctrl-D to the task."""
            try:
                data = os.read(0, CHUNK_BYTES)
            except OSError:
                data = b""
            write_all(self.own, data or b"\x04")
            if not data:
                stop_reading(0)

        read_from(self.own, show)
        read_from(0, type_in)

    def give_back(self) -> None:
        with suppress(termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, self.settings)
