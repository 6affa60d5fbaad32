"""What the tasks of a step write, on its way through srun, and what srun reads for them."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import time

CHUNK_BYTES = 64 * 1024
LONGEST_LINE_BYTES = 1024 * 1024
UNHEARD_S = 10.0
"""How long a task may write on after the reader of srun's output has left."""


class Output:
    """One stream of one task: whole lines go on, with a label if one is wanted."""

    def __init__(self, source: int, target: int, label: bytes, unbuffered: bool) -> None:
        self.source = source
        self.target = target
        self.label = label
        self.unbuffered = unbuffered
        self.held = b""
        self.unheard_since_s = 0.0

    def pump(self) -> bool:
        """Passes on what is there; False at the end of the stream."""
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
        """`| head` leaves the tasks time to end by themselves; one that writes without end is then
        told by SIGPIPE."""
        now_s = time.monotonic()
        self.unheard_since_s = self.unheard_since_s or now_s
        if now_s - self.unheard_since_s < UNHEARD_S:
            return True
        os.close(self.source)
        return False


def write_all(descriptor: int, data: bytes) -> bool:
    """Waits for a slow reader; gives up where there is none (False), or where the disk is full."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
        except OSError as error:
            return error.errno != errno.EPIPE
    return True


class Input:
    """Copies our standard input to those tasks that are to have it."""

    def __init__(self, source: int, targets: list[int]) -> None:
        self.source = source
        self.targets = targets
        for target in targets:
            os.set_blocking(target, False)
        self.held = {target: b"" for target in targets}

    def wants_more(self) -> bool:
        return bool(self.held) and not any(self.held.values())

    def pump(self) -> bool:
        """False at the end of the input, or when no task reads any more."""
        try:
            data = os.read(self.source, CHUNK_BYTES)
        except OSError:
            data = b""
        if not data:
            return False
        for target in list(self.held):
            self.held[target] += data
            self.flush(target)
        return bool(self.held)

    def flush(self, target: int) -> None:
        try:
            written = os.write(target, self.held[target])
        except BlockingIOError:
            return
        except OSError:  # the task closed its input, or ended
            self.drop(target)
            return
        self.held[target] = self.held[target][written:]

    def drop(self, target: int) -> None:
        del self.held[target]
        with contextlib.suppress(OSError):
            os.close(target)

    def waiting(self) -> list[int]:
        return [target for target, data in self.held.items() if data]
