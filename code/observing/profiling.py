"""Profiles of a few steps: traces for TensorBoard's profiler tab, and memory traces.

process/profile_ranges.py names the ranges."""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch.utils.checkpoint import set_checkpoint_early_stop

MOST_EVENTS = 1_000_000


def snapshot_path(args: argparse.Namespace, rank: int) -> Path:
    """Return --memory-snapshot-path with the rank before the suffix: one file per rank."""
    given = Path(args.memory_snapshot_path)
    return given.with_name(f"{given.stem}.rank{rank}{given.suffix}")


def write_trace(recording: Any, folder: Path, rank: int) -> None:
    """Write a compressed trace under a name that TensorBoard's profiler tab knows.

    PyTorch's own handler compresses each line by itself, at the highest level. This takes eight
    times as long, and the file is only a tenth smaller."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rank{rank}.{time.time_ns()}.pt.trace.json.gz"
    with tempfile.NamedTemporaryFile(suffix=".json") as plain:
        recording.export_chrome_trace(plain.name)
        with Path(plain.name).open("rb") as trace, gzip.open(path, "wb", compresslevel=6) as out:
            shutil.copyfileobj(trace, out, 1 << 20)


class Profiler:
    """Recorder of the steps from --profile-step-start up to --profile-step-end.

    The memory trace comes from the same recording. On CUDA, PyTorch's own memory history, with the
    code lines of each block, is written too, for https://pytorch.org/memory_viz."""

    def __init__(self, args: argparse.Namespace, rank: int, memory: Any = None) -> None:
        self.args, self.rank, self.memory = args, rank, memory
        self.traces = args.profile and rank in args.profile_ranks
        self.wanted = self.traces or args.record_memory_history
        self.recording: Any = None
        self.snapshots = args.record_memory_history and torch.cuda.is_available()
        self.while_recording = ExitStack()

    def before_step(self, iteration: int) -> None:
        """Start recording one step early: a warm-up that keeps start-up costs out of the record."""
        if self.wanted and iteration == self.args.profile_step_start - 1:
            self.recording = self._start()

    def after_step(self) -> None:
        if self.recording is not None:
            self.recording.step()

    def stop(self) -> None:
        """Stop recording, also if the run ends before the last step to record."""
        if self.recording is not None:
            self.recording.stop()

    def _start(self) -> Any:
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it prints every start and stop
        steps = self.args.profile_step_end - self.args.profile_step_start
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        recording = torch.profiler.profile(
            activities=activities,
            schedule=torch.profiler.schedule(wait=0, warmup=1, active=steps, repeat=1),
            on_trace_ready=self._ready,
            record_shapes=self.traces,
            profile_memory=True,
        )
        if self.memory is not None:
            self.memory.begin()
        if self.snapshots:
            # Recomputation stops by an exception when backward has all that it needs. If the memory
            # history looks up code lines at that moment, the exception is lost (PyTorch 2.11, issue
            # 179536). So recomputation runs to its end.
            self.while_recording.enter_context(set_checkpoint_early_stop(False))
            torch.cuda.memory._record_memory_history(stacks="python", max_entries=MOST_EVENTS)
        recording.start()
        return recording

    def _ready(self, recording: Any) -> None:
        if self.traces:
            write_trace(recording, Path(self.args.profile_dir), self.rank)
        if self.args.record_memory_history:
            self.memory.finish(recording)
        if self.snapshots:
            path = snapshot_path(self.args, self.rank)
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.cuda.memory._dump_snapshot(str(path))
            torch.cuda.memory._record_memory_history(enabled=None)
            self.while_recording.close()
