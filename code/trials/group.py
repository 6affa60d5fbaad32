"""The ranks of a trial among themselves, by a way that the learner's code does not use."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from trials.calls import Calls
from trials.notes import Notes


class TrialRanks:
    """What an exercise needs beside the function that it tries."""

    def __init__(self, notes: Notes, calls: Calls, store: dist.Store) -> None:
        self.notes, self.calls, self.store = notes, calls, store
        self.results = 0
        self.kept: list[Any] = []
        """What holds on to the process group, and may not end with it (process/own_program.py)."""

    def agrees(self, found: dict[str, Any]) -> bool:
        """Writes this rank's result down; whether all ranks have the right one. Who went on while
        another stopped would wait for it for ever, and hide the mistake."""
        self.notes.write("result", **found)
        self.results += 1
        size, rank = dist.get_world_size(), dist.get_rank()
        keys = [f"trial/{size}/{self.results}/{other}" for other in range(size)]
        self.store.set(keys[rank], str(found["ok"]))
        return all(self.store.get(key) == b"True" for key in keys)
