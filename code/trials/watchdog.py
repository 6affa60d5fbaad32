"""Watchdog for a learner's code that never returns: it ends the rank and records the line.

If one rank fails, the others wait for it. They record their line before a launcher ends them, so
that all ranks can be compared.

    verdict/rank<R>.jsonl    one object per line, `event` names what happened; the lines are on disk
                             however the rank ends"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import torch.distributed as dist

from process.rendezvous import own_connection

FAILED = "trial/failed"
# Limit for all cases on one number of ranks; each case takes some milliseconds.
LONGEST_S = 10.0
# Longest limit on a busy machine; at 60 s the collectives themselves end with an error.
LONGEST_BUSY_S = 50.0
# Time for the other ranks to record their line.
LAST_WORDS_S = 1.0
EXIT_STUCK = 3


class Notes:
    """Record of one rank of a trial, line by line."""

    def __init__(self, rank: int) -> None:
        folder = Path(os.environ.get("COURSE_RUN_DIR") or ".") / "verdict"
        folder.mkdir(parents=True, exist_ok=True)
        self.file = (folder / f"rank{rank}.jsonl").open("w", encoding="utf-8")
        self.owner = os.getpid()
        self.lock = threading.RLock()  # a destructor may write while a line is written
        self.place: dict[str, Any] = {}
        """Number of ranks and case that are tried now; part of every line."""

    def write(self, event: str, **fields: Any) -> None:
        if os.getpid() != self.owner:  # a child that the learner's code has forked ends here
            os._exit(0)
        line = json.dumps({"event": event, **self.place, **fields}, default=str)
        with self.lock:
            self.file.write(line + "\n")
            self.file.flush()


class Watchdog:
    """Thread that ends the rank when a trial takes too long, or when another rank has failed."""

    def __init__(self, notes: Notes, file: Path, store: dist.Store) -> None:
        self.notes, self.file = notes, file
        self.store = own_connection(store)
        self.main = threading.get_ident()
        self.longest_s = LONGEST_S
        self.until_s = float("inf")
        threading.Thread(target=self._look, daemon=True).start()

    def begin(self) -> None:
        busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
        longest_s = min(busy * self.longest_s, max(self.longest_s, LONGEST_BUSY_S))
        self.until_s = time.monotonic() + longest_s

    def rest(self) -> None:
        self.until_s = float("inf")

    def _look(self) -> None:
        while time.monotonic() < self.until_s and not self._another_failed():
            time.sleep(0.1)
        event = "stuck" if time.monotonic() >= self.until_s else "left alone"
        line = line_in(sys._current_frames().get(self.main), self.file)
        self.notes.write(event, line=line)
        self.leave(EXIT_STUCK)

    def _another_failed(self) -> bool:
        try:
            return bool(self.store.check([FAILED]))
        except RuntimeError:  # the process with the store has ended
            return False

    def leave(self, code: int) -> NoReturn:
        """End this rank after a delay, in which all ranks write. A launcher ends all ranks when one
        has ended."""
        with contextlib.suppress(RuntimeError):
            self.store.set(FAILED, "")
        time.sleep(LAST_WORDS_S)
        os._exit(code)


def line_in(frame: FrameType | None, file: Path) -> int | None:
    """Return the line of the learner's file at which a call is."""
    while frame is not None:
        if frame.f_code.co_filename == str(file):
            return frame.f_lineno
        frame = frame.f_back
    return None
