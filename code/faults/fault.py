"""Base class of all faults, with hooks at the places of a run where things go wrong.

    at_start     before the ranks meet: environment, names, ports
    before_build, built     the model of this rank
    before_step  each step, on every rank
    saving       a checkpoint's folder exists and is empty (on rank 0)
    sealing      its files are written, but have no checksums yet
    saved        it is complete (on rank 0)

A fault has one rank and a first iteration, which counts from 1 as in the log."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from process.environment import environment_of_rank


@dataclass
class Fault:
    rank: int
    iteration: int

    @property
    def mine(self) -> bool:
        return environment_of_rank()[0] == self.rank

    @property
    def on_my_node(self) -> bool:
        """Tell whether the fault is on this node; launchers number a node's ranks consecutively."""
        rank, _, local = environment_of_rank()
        told = os.environ.get("LOCAL_WORLD_SIZE") or os.environ.get("SLURM_TASKS_PER_NODE") or "1"
        on_each = int(told.partition("(")[0].partition(",")[0])  # such as 2(x2)
        first = rank - local
        return first <= self.rank < first + on_each

    def at_start(self, args: argparse.Namespace) -> None: ...

    def before_build(self, args: argparse.Namespace) -> None: ...

    def built(self, training: Any) -> None: ...

    def before_step(self, training: Any, progress: Any) -> None: ...

    def saving(self, folder: Path) -> None: ...

    def sealing(self, folder: Path) -> None: ...

    def saved(self, folder: Path) -> None: ...

    def due(self, progress: Any) -> bool:
        """Return True on the fault's rank in the fault's iteration."""
        return self.mine and progress.iteration + 1 == self.iteration
