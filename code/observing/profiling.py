"""Profiles of a few steps: PyTorch profiler traces for TensorBoard's profiler tab, memory traces.

Ranges are named after what the program does at that moment: see process/profile_ranges.py.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import torch

from observing.memory_snapshot import Snapshot


class Profiler:
    """Records the steps from --profile-step-start up to --profile-step-end.

    The memory trace is made from the same recording; on CUDA, PyTorch's memory snapshot beside it.
    """

    def __init__(self, args: argparse.Namespace, rank: int, memory: Any) -> None:
        self.args, self.rank, self.memory = args, rank, memory
        self.snapshot = Snapshot(args, rank)
        self.traces = args.profile and rank in args.profile_ranks
        self.wanted = self.traces or args.record_memory_history
        self.recording: Any = None

    def missed(self, iteration: int) -> str | None:
        """What to say where a run goes on behind the steps that it was to record."""
        first = self.args.profile_step_start
        if not self.wanted or iteration < first:
            return None
        return (
            f"WARNING: no step is recorded: --profile-step-start {first} lies before iteration "
            f"{iteration}, from which this run goes on"
        )

    def before_step(self, iteration: int) -> None:
        """The step before the first is a warm-up, so that starting costs none of the recorded."""
        if self.wanted and iteration == self.args.profile_step_start - 1:
            self.recording = self._start()

    def after_step(self) -> None:
        if self.recording is not None:
            self.recording.step()

    def stop(self) -> None:
        """The run may end before the last step that was to be recorded."""
        if self.recording is not None:
            self.recording.stop()

    def _start(self) -> Any:
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it tells of every start and stop
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
        self.memory.begin()
        self.snapshot.begin()
        recording.start()
        return recording

    def _ready(self, recording: Any) -> None:
        if self.traces:
            folder = Path(self.args.profile_dir)
            handler = torch.profiler.tensorboard_trace_handler(
                str(folder), worker_name=f"rank{self.rank}", use_gzip=True
            )
            handler(recording)
        if self.args.record_memory_history:
            self.memory.finish(recording)
            self.snapshot.finish()
