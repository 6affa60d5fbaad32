"""PyTorch's own record of a GPU's memory: every block with the lines of code that took it.

It is written beside the memory trace (memory_trace.py), which tells what each block was for and
exists on CPU too. Drop the file onto https://pytorch.org/memory_viz, or read it with the course.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path

import torch
from torch.utils.checkpoint import set_checkpoint_early_stop

MOST_EVENTS = 1_000_000


def path_of(args: argparse.Namespace, rank: int) -> Path:
    """--memory-snapshot-path with the rank before its ending: one file per rank."""
    given = Path(args.memory_snapshot_path)
    return given.with_name(f"{given.stem}.rank{rank}{given.suffix}")


def possible() -> bool:
    return torch.cuda.is_available()


def note(args: argparse.Namespace, device: torch.device) -> str:
    """What --record-memory-history writes on this device."""
    traces = f"memory traces of every rank to {args.memory_dir}/rank<R>.jsonl.gz"
    if device.type == "cuda":
        return f"writing {traces} and PyTorch's snapshots to {path_of(args, 0)} …"
    return (
        f"writing {traces}; PyTorch's memory snapshots (--memory-snapshot-path) exist on CUDA only"
    )


class Snapshot:
    """Of the recorded steps; does nothing where there is no CUDA."""

    def __init__(self, args: argparse.Namespace, rank: int) -> None:
        self.path = path_of(args, rank)
        self.possible = args.record_memory_history and possible()
        self.while_recording = ExitStack()

    def begin(self) -> None:
        if self.possible:
            # A layer that is computed again stops, by an exception, where backward has all that it
            # needs. The record looks up lines of code for a block that is taken meanwhile, which
            # loses the exception (PyTorch 2.11, issue 179536): so it goes on to its end.
            self.while_recording.enter_context(set_checkpoint_early_stop(False))
            torch.cuda.memory._record_memory_history(stacks="python", max_entries=MOST_EVENTS)

    def finish(self) -> None:
        if self.possible:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            torch.cuda.memory._dump_snapshot(str(self.path))
            torch.cuda.memory._record_memory_history(enabled=None)
            self.while_recording.close()
