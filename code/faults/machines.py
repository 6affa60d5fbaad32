"""Faults of nodes and devices: killed processes, slow clocks, full memory."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from typing import Any

import torch

from faults.fault import Fault
from process import pace


class Killed(Fault):
    """Fault: the process ends without a message, as if the kernel needed memory."""

    def before_step(self, training: Any, progress: Any) -> None:
        if self.due(progress):
            os.kill(os.getpid(), signal.SIGKILL)


class NodeDies(Fault):
    """Fault: all processes of a node end, including its launcher."""

    def before_step(self, training: Any, progress: Any) -> None:
        if self.on_my_node and progress.iteration + 1 == self.iteration:
            if "TORCHELASTIC_RUN_ID" in os.environ:
                os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)


class RandomNodeDeath(Fault):
    """Fault: random node failures. `iteration` is the mean time between them in seconds, `rank` is
    the seed. Each start of the job draws a new time."""

    def built(self, training: Any) -> None:
        drawn = random.Random(f"{self.rank}/{os.environ.get('SLURM_STEP_ID')}")
        after_s = drawn.expovariate(1 / self.iteration)
        node = drawn.randrange(int(os.environ.get("SLURM_NNODES") or 1))
        if int(os.environ.get("SLURM_NODEID") or 0) == node:
            clock = threading.Timer(after_s, os.kill, (os.getpid(), signal.SIGKILL))
            clock.daemon = True
            clock.start()


class SlowRank(Fault):
    """Fault: the device's clock is lowered, so that it takes three times as long."""

    FACTOR = 3.0

    def built(self, training: Any) -> None:
        if not self.mine:
            return
        if pace.PACE is not None:
            pace.PACE.factor *= self.FACTOR
            return
        quick = training.pipeline.train

        def slow(*given: Any) -> Any:
            began_s = time.perf_counter()
            loss = quick(*given)
            loss.item()  # a GPU has only been given the work so far
            time.sleep((self.FACTOR - 1) * (time.perf_counter() - began_s))
            return loss

        training.pipeline.train = slow


class Hoard(Fault):
    """Fault: one rank keeps its predictions for every token until the memory is full."""

    MOST = 4000

    def before_step(self, training: Any, progress: Any) -> None:
        if not self.due(progress):
            return
        args = training.args
        kept: list[torch.Tensor] = []
        rows = args.seq_length * args.micro_batch_size
        while len(kept) < self.MOST:
            kept.append(torch.zeros(rows, args.padded_vocab_size, device=training.device))


class Leak(Fault):
    """Fault: one rank keeps weights and gradients of every step in a list, "for a plot"."""

    def built(self, training: Any) -> None:
        self.kept: list[torch.Tensor] = []

    def before_step(self, training: Any, progress: Any) -> None:
        if self.mine and progress.iteration:
            self.kept += [training.holder.gradients.clone(), training.holder.values.clone()]
