"""Writing while training goes on (--async-save).

A thread of each rank writes what was copied for it. The threads talk over a process group of their
own: in the common one their messages would meet those of the training.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch.distributed as dist


class Behind:
    """One piece of work at a time; all ranks begin the same ones."""

    def __init__(self) -> None:
        self.group = dist.new_group(backend="gloo")
        self.thread: threading.Thread | None = None
        self.error: BaseException | None = None

    def begin(self, work: Callable[[], None]) -> None:
        """Waits for the work before this one, if that still goes on."""
        self.wait()
        self.thread = threading.Thread(target=self._do, args=(work,), daemon=True)
        try:
            self.thread.start()
        except RuntimeError:  # a full device has no memory for a thread either
            self.thread = None
            work()

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # raised again by who waits
            self.error = error

    def wait(self) -> None:
        if self.thread is not None:
            self.thread.join()
            self.thread = None
        if self.error is not None:
            raise self.error
