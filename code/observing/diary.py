"""Diary of every rank: one line per step with values that must agree or must differ between
ranks.

    weights   checksum after the step: equal on ranks with copies of the same parameters
    samples   checksums of the samples: different for each sample and data rank
    random    checksum of the generator's state, if there is dropout
    own_ms    step time without communication: longest on the rank that others wait for
    loss      mean over this rank's own tokens, before any sum over ranks
    memory_mib   memory that the rank holds for the training

With experts, a line also has the rank's rows per expert and layer, and the bytes sent to experts on
other ranks and back; `weights` then excludes the experts.

`diary/rank<R>.jsonl` in the run folder has a header, then the steps. The diary needs no
communication. A checksum takes one pass over the weights; Megatron-LM compares similar ones between
ranks with --check-weight-hash-across-dp-replicas-interval."""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from process import pace, profile_ranges
from process.device import MemoryUse
from process.errors import node_name

FORMAT = "course-diary-1"
DIGITS = 8


def checksum(values: Tensor) -> str:
    """Return a sum of all words weighted by position; any changed bit very likely changes it."""
    bits = values.detach().contiguous().view(torch.uint8)
    words = bits[: bits.numel() // 4 * 4].view(torch.int32).to(torch.int64)
    places = torch.arange(1, words.numel() + 1, device=words.device)
    return f"{int((words * places).sum().item()) & 0xFFFFFFFF:0{DIGITS}x}"


class Diary:
    """Wrapper of a program's functions that writes the diary."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.folder = Path(os.environ.get("COURSE_RUN_DIR", ".")) / "diary"
        self.file: IO[str] | None = None
        self.read: list[str] = []
        self.talked_s = 0.0

    def around(self, program: Any) -> None:
        build, step = program.build, program.train_step
        self._time_communication()

        @wraps(build)
        def build_and_begin(*given: Any) -> Any:
            self.memory = MemoryUse(given[2])
            training = build(*given)
            self._begin(training)
            return training

        @wraps(step)
        def step_and_write(training: Any, progress: Any) -> Any:
            self.read, self.talked_s = [], 0.0
            began_s = time.perf_counter()
            loss, result = step(training, progress)
            self._write(training, progress, loss, result, time.perf_counter() - began_s)
            return loss, result

        program.build, program.train_step = build_and_begin, step_and_write

    def _time_communication(self) -> None:
        """Measure communication: all of it runs inside profiler ranges of this name."""
        named = profile_ranges.named

        @contextmanager
        def timed(name: str) -> Iterator[None]:
            began_s = time.perf_counter()
            try:
                with named(name):
                    yield
            finally:
                self.talked_s += time.perf_counter() - began_s

        def told(name: str) -> AbstractContextManager[object]:
            return timed(name) if name.startswith("communication") else named(name)

        setattr(pace, "named", told)  # noqa: B010 - the single function that all communication uses

    def _begin(self, training: Any) -> None:
        layout, sample = training.layout, training.loaders["train"].samples.sample

        def noted(number: int) -> Any:
            tokens = sample(number)
            self.read.append(f"{zlib.crc32(tokens.tobytes()):0{DIGITS}x}")
            return tokens

        training.loaders["train"].samples.sample = noted
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file = (self.folder / f"rank{layout.rank}.jsonl").open("a", encoding="utf-8")
        axes = ("tensor", "pipeline", "context", "data")
        self._line({
            "format": FORMAT, "rank": layout.rank, "world_size": layout.everyone.size,
            "node": node_name(), "vocabulary": self.args.vocab_size,
            "layout": {axis: getattr(layout, axis).index for axis in axes},
        })  # fmt: skip

    def _write(
        self, training: Any, progress: Any, loss: Tensor, result: Any, passed_s: float
    ) -> None:
        args, holder = training.args, training.holder
        tokens = training.micro_batches * args.micro_batch_size * args.seq_length
        dropped = args.hidden_dropout or args.attention_dropout
        last = training.layout.pipeline.last
        self._line({
            "iteration": progress.iteration, "step_ms": round(1e3 * passed_s, 3),
            "own_ms": round(1e3 * (passed_s - self.talked_s), 3),
            "loss": _number(loss.item() / tokens) if last else None,
            "grad_norm": _number(float(result.norm)),
            "memory_mib": round(self.memory.own_bytes() / 2**20, 2), "samples": self.read,
            "weights": checksum(holder.values) if hasattr(holder, "values") else None,
            "random": checksum(_random_state(training.device)) if dropped else None,
            **(training.routing.of_this_rank() if args.num_experts else {}),
        })  # fmt: skip

    def _line(self, row: dict[str, Any]) -> None:
        assert self.file is not None
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()  # so that the line survives if the process is killed


def _random_state(device: torch.device) -> Tensor:
    """Return the state of the generator of dropout masks."""
    if device.type == "cpu":
        return torch.get_rng_state()
    state: Tensor = torch.get_device_module(device).get_rng_state(device)
    return state


def _number(value: float) -> float | str:
    """Return a value that JSON can hold: it has no NaN."""
    return value if math.isfinite(value) else str(value)
