"""Processes that do not outlive whoever started them, not even when that one is killed."""

from __future__ import annotations

import multiprocessing
import multiprocessing.context
import os
import signal
import sys
import threading
import time
from multiprocessing.managers import SyncManager
from typing import Any

TIDYING_LIMIT_S = 10
SPAWN = multiprocessing.get_context("spawn")
_AT_ONCE = threading.BoundedSemaphore(max(1, (os.cpu_count() or 2) // 2))
"""The profiler tab starts one process for every trace it finds: with 64 ranks, 64 at once."""


def exit_with(parent_pid: int) -> None:
    """Ends this process within a second of its parent's end, temporary files and all. (Polled,
    because macOS has nothing like PR_SET_PDEATHSIG, and that one fires when the parent's
    *thread* ends.) The Jupyter server's own SIGTERM ends it the same way."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))

    def watch() -> None:
        while os.getppid() == parent_pid:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)  # the main thread tidies up
        time.sleep(TIDYING_LIMIT_S)
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def exit_with_multiprocessing_parent() -> None:
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()  # waits for a pipe that closes when the parent ends, however it ends
        os._exit(0)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


class MortalProcess(multiprocessing.context.SpawnProcess):
    """Waits its turn, then runs; `start` returns at once, as the caller expects.

    One that was killed (a trace too large for the memory) cannot report itself: its parent puts
    the empty answer into the loader's queue, which would be waited for without end.
    """

    def start(self) -> None:
        threading.Thread(target=self._in_turn, name="trace-loader", daemon=True).start()

    def _in_turn(self) -> None:
        loader = self._target.__self__  # type: ignore[attr-defined]  # start() forgets it
        with _AT_ONCE:
            super().start()
            self.join()
        if self.exitcode:
            loader.queue.put((None, None))

    def run(self) -> None:
        exit_with_multiprocessing_parent()
        super().run()


def mortal_manager() -> Any:
    manager = SyncManager(ctx=SPAWN)
    manager.start(initializer=exit_with_multiprocessing_parent)
    return manager
