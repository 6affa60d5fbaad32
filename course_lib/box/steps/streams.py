"""Streams of a step's tasks through srun, and srun's messages about ended tasks."""

from __future__ import annotations

import errno
import os
import select
import signal
import threading
import time

from course_lib.box.commands.command_line import Unsupported
from course_lib.box.queue import arrays
from course_lib.box.steps import filename_patterns

CHUNK_BYTES = 64 * 1024
LONGEST_LINE_BYTES = 1024 * 1024
# Time that a task may continue to write after the reader of srun's output has left.
NO_READER_S = 10.0


class Output:
    """One stream of one task. Whole lines are passed on, with a label if requested."""

    def __init__(self, source: int, target: int, label: bytes, unbuffered: bool) -> None:
        self.source = source
        self.target = target
        self.label = label
        self.unbuffered = unbuffered
        self.held = b""
        self.no_reader_since_s = 0.0

    def pump(self) -> bool:
        """Pass on the available data. Return False at the end of the stream."""
        data = os.read(self.source, CHUNK_BYTES)
        if not data:
            if self.held:
                write_all(self.target, self.label + self.held + (b"\n" if self.label else b""))
            os.close(self.source)
            return False
        self.held += data
        if self.unbuffered and not self.label:
            ready, self.held = self.held, b""
        else:
            ready, newline, self.held = self.held.rpartition(b"\n")
            ready += newline
        if len(self.held) > LONGEST_LINE_BYTES:
            ready, self.held = ready + self.held, b""
        if self.label and ready:
            ready = b"".join(self.label + line for line in ready.splitlines(keepends=True))
        return write_all(self.target, ready) or self._goes_on()

    def _goes_on(self) -> bool:
        """Return True for a while after the reader left (`| head`), so that tasks can end. Then
        close the stream, so that SIGPIPE ends a task that still writes."""
        now_s = time.monotonic()
        self.no_reader_since_s = self.no_reader_since_s or now_s
        if now_s - self.no_reader_since_s < NO_READER_S:
            return True
        os.close(self.source)
        return False


def write_all(descriptor: int, data: bytes) -> bool:
    """Write all data. Return False if there is no reader. If the disk is full, drop the rest."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
        except OSError as error:
            return error.errno != errno.EPIPE
    return True


def feed(targets: list[int]) -> None:
    """Copy srun's standard input to the tasks in a thread, and close their inputs at its end."""

    def copy() -> None:
        left = targets
        while left and (data := _typed()):
            left = [target for target in left if write_all(target, data)]
        for target in targets:
            os.close(target)

    if targets:
        threading.Thread(target=copy, daemon=True).start()


def _typed() -> bytes:
    try:
        select.select(
            [0], [], []
        )  # reading before there is any input would stop an srun in the background
        return os.read(0, CHUNK_BYTES)
    except OSError:
        return b""


def describe(status: int) -> str:
    """Return srun's text for a wait status other than 0."""
    if os.WIFSIGNALED(status):
        text = signal.strsignal(os.WTERMSIG(status)) or f"Unknown signal {os.WTERMSIG(status)}"
        return f"{text} (core dumped)" if os.WCOREDUMP(status) else text
    return f"Exited with exit code {os.WEXITSTATUS(status)}"


def code_of(status: int) -> int:
    """Return the exit code that srun reports for a task's wait status."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


class Report:
    """Collection of tasks that end at about the same time, to print one line per node."""

    def __init__(self, nodes: list[str], tasks: list[list[int]]) -> None:
        self.node_of = {
            task: node for node, of_node in zip(nodes, tasks, strict=True) for task in of_node
        }
        self.pending: dict[tuple[str, int], list[int]] = {}

    def add(self, task: int, status: int) -> None:
        if status:
            self.pending.setdefault((self.node_of[task], status), []).append(task)

    def flush(self) -> None:
        for (node, status), tasks in self.pending.items():
            word = "task" if len(tasks) == 1 else "tasks"
            say(f"error: {node}: {word} {arrays.written(tasks)}: {describe(status)}")
        self.pending.clear()


def say(text: str) -> None:
    write_all(2, f"srun: {text}\n".encode(errors="surrogateescape"))


class NoFile(Exception):
    """Error: a file could not be opened. A message was already printed."""


class Sinks:
    """Opens the output of the tasks. Output that several tasks share is relayed by srun."""

    def __init__(self, values: list[dict[str, str]], append: bool, label: bool) -> None:
        self.values, self.label = values, label
        self.flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
        self.shared: dict[bytes, int] = {}

    def target(self, choice: str, default: int, task: int, stream: str) -> tuple[int, bool]:
        """Return a descriptor to write to, and whether the task gets it or srun relays to it."""
        if choice in ("", "all"):
            return default, False
        if choice.isdigit():
            raise Unsupported(f"{stream} of one task ({choice})", "Name a file with %t.")
        pattern = b"/dev/null" if choice == "none" else os.fsencode(choice)
        path = filename_patterns.fill(pattern, self.values[task])
        direct = filename_patterns.depends_on_task(pattern) and not self.label
        return self._open(path, stream), direct

    def _open(self, path: bytes, stream: str) -> int:
        if path not in self.shared:
            try:
                self.shared[path] = os.open(path, self.flags, 0o666)
            except OSError as error:
                say(f"error: Could not open {stream} file: {error.strerror}")
                raise NoFile from error
        return self.shared[path]


def input_of(choice: str, values: dict[str, str]) -> int | None:
    """Return a descriptor to read from, or None if srun passes on its own input."""
    if choice in ("", "all"):
        return None
    if choice.isdigit():
        raise Unsupported(f"stdin of one task ({choice})", "Name a file with %t.")
    path = filename_patterns.fill(os.fsencode(choice), values) if choice != "none" else b"/dev/null"
    try:
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        say(f"error: Could not open stdin file: {error.strerror}")
        raise NoFile from error
