"""Messages with open files between the processes of the box, and a loop that waits for them.

A message is a dict of plain values in Python's `marshal` format. Both ends run the same interpreter
as the same user. Importing `json` alone would take a command 5 ms.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import marshal
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Message = dict[str, Any]

_HEADER = struct.Struct("!II")
_FILES_AT_ONCE = 200  # the kernel takes at most 253
_LONGEST_BYTES = 64 * 1024 * 1024
_LONGEST_SOCKET_PATH = 100  # 108 on Linux, 104 on macOS, with the ending NUL
PATIENCE_S = 10.0
# Time-out between the processes of one job. They are slow if many jobs start at once.
OWN_PATIENCE_S = 120.0


class Gone(Exception):
    """Error: the other end is closed, or it sent an invalid message."""


def send(connection: socket.socket, message: Message, files: Sequence[int] = ()) -> None:
    body = marshal.dumps(message)
    try:
        header = _HEADER.pack(len(body), len(files))
        if not files:  # sent in one piece, so that the receiver does not wait
            connection.sendall(header + body)
            return
        connection.sendall(header)
        for start in range(0, len(files), _FILES_AT_ONCE):
            socket.send_fds(connection, [b"f"], list(files[start : start + _FILES_AT_ONCE]))
        connection.sendall(body)
    except OSError as error:
        raise Gone(str(error)) from error


def receive(connection: socket.socket) -> tuple[Message, list[int]]:
    """Return the next message with its open files. An exec does not inherit these files."""
    files: list[int] = []
    try:
        length, count = _HEADER.unpack(_exactly(connection, _HEADER.size))
        if length > _LONGEST_BYTES:
            raise Gone("this is not a message of the box")
        while len(files) < count:
            flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
            data, got, _, _ = socket.recv_fds(connection, 1, _FILES_AT_ONCE, flags)
            if not data or not got:
                raise Gone("closed in the middle of a message")
            files += got
        message = marshal.loads(_exactly(connection, length))
    except (OSError, ValueError, EOFError, TypeError) as error:
        close_all(files)
        raise Gone(str(error)) from error
    for file in files:
        os.set_inheritable(file, False)
    if not isinstance(message, dict):
        raise Gone("this is not a message of the box")
    return message, files


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 1 << 20))
        if not part:
            raise Gone("closed")
        parts += part
    return bytes(parts)


def close_all(files: Sequence[int]) -> None:
    for file in files:
        with contextlib.suppress(OSError):
            os.close(file)


@contextlib.contextmanager
def _short(path: str) -> Iterator[str]:
    """Return a path to the same socket that fits into the kernel's 108 bytes."""
    if len(os.fsencode(path)) <= _LONGEST_SOCKET_PATH:
        yield path
        return
    if not os.path.isdir("/proc/self/fd"):
        raise OSError(f"the path of a socket is too long: {path}; choose a shorter COURSE_BOX_HOME")
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)


def listen(path: str) -> socket.socket:
    """Return a listening socket at `path`, in place of a socket of a killed process."""
    listener = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    try:
        with _short(path) as name:
            listener.bind(name)
    except OSError:  # such as a full disk: repeated tries must not use up descriptors
        listener.close()
        raise
    listener.listen(128)
    listener.settimeout(PATIENCE_S)
    return listener


def accept(listener: socket.socket) -> tuple[socket.socket, Message, list[int]] | None:
    """Return the next caller and its message, or None if the caller has already left."""
    try:
        connection, _ = listener.accept()
        connection.settimeout(PATIENCE_S)
        return connection, *receive(connection)
    except (OSError, Gone):
        return None


def connect(path: str, timeout_s: float | None = PATIENCE_S) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(timeout_s)
    try:
        with _short(path) as name:
            connection.connect(name)
    except OSError:
        connection.close()
        raise
    return connection


Action = Callable[[], None]


class Loop:
    """A loop that waits for input and timers. Supervisors and srun do everything in one thread."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._readers: dict[int, Action] = {}
        self._timers: list[tuple[float, int, Action]] = []
        self._numbers = itertools.count()
        self._running = True

    def on_input(self, source: socket.socket | int, action: Action) -> None:
        """Call `action` whenever a socket or descriptor has input."""
        self._readers[source if isinstance(source, int) else source.fileno()] = action
        self._poll.register(source, select.POLLIN)

    def forget(self, source: socket.socket | int) -> None:
        """Stop watching a socket or descriptor. Call this before closing it."""
        if self._readers.pop(source if isinstance(source, int) else source.fileno(), None):
            self._poll.unregister(source)

    def after(self, seconds: float, action: Action) -> None:
        entry = (time.monotonic() + max(seconds, 0.0), next(self._numbers), action)
        heapq.heappush(self._timers, entry)

    def every(self, seconds: float, action: Action) -> None:
        def again() -> None:
            action()
            self.after(seconds, again)

        self.after(seconds, again)

    def stop(self) -> None:
        self._running = False

    def run(self) -> None:
        while self._running:
            self._fire()
            for descriptor, _ in self._poll.poll(self._wait_ms()):
                if action := self._readers.get(descriptor):
                    action()
                else:  # closed before it was forgotten; it would be ready forever
                    with contextlib.suppress(KeyError):
                        self._poll.unregister(descriptor)
                if not self._running:
                    return

    def _fire(self) -> None:
        while self._timers and self._timers[0][0] <= time.monotonic() and self._running:
            heapq.heappop(self._timers)[2]()

    def _wait_ms(self) -> int | None:
        if not self._timers:
            return None
        return max(0, int((self._timers[0][0] - time.monotonic()) * 1000) + 1)
