"""Log lines and scalars of train_vit.py: a few per epoch, by the first rank."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from datetime import datetime

import torch

from observing.reporting import say, scalar_writer, world_line
from parallel.layout import Layout
from process.device import MemoryUse
from weather.configuration import ROWS


@dataclass(frozen=True)
class Judged:
    """Scores over all validation pairs."""

    loss: float
    wind_rmse: float
    persistence_rmse: float
    seconds: float


class EpochReport:
    def __init__(self, args: argparse.Namespace, rank: int, device: torch.device) -> None:
        self.args, self.speaks = args, rank == 0
        self.memory = MemoryUse(device)
        self.writer = scalar_writer(args, self.speaks)

    def log(self, text: str) -> None:
        """Print a line in the format of Python's `logging`."""
        now = datetime.now()
        if self.speaks:
            say(f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d} - root - INFO - {text}")

    def begins(self, layout: Layout, parameters: int, rate: float) -> None:
        if self.speaks:
            say(world_line(layout))
        self.log(f"------------------ Configuration {self.args.config} ------------------")
        for name in ROWS:
            self.log(f"{name} {getattr(self.args, name)}")
        self.log("---------------------------------------------------")
        self.log(f"Highest learning rate {rate:.6g}")
        if self.speaks:
            where = "(tensor, pipeline) model parallel rank (0, 0)"
            say(f" > number of parameters on {where}: {parameters}")
        self.log(f"Scaffolding memory high watermark: {self.memory.bytes()[1] / 1e9:.2f} GB.")
        self.log("Starting Training Loop...")

    def after_first_forward(self) -> None:
        """Report the memory with all activations of the batch, which is near the step's peak."""
        self.log(f"Memory usage after forward pass: {self.memory.bytes()[0] / 1e9:.2f} GB.")

    def epoch(self, number: int, seconds: float, samples: int, loss: float, rate: float) -> None:
        speed = samples / seconds
        self.log(f"Time taken for epoch {number} is {seconds:.6f} sec, avg {speed:.6f} samples/sec")
        self.log(f"  Avg train loss={loss:.6f}")
        values = {"loss/train": loss, "samples per second": speed, "learning rate": rate}
        self._scalars(values, number)

    def judged(self, number: int, of: Judged) -> None:
        self.log(f"  Avg val loss={of.loss}")
        self.log(f"  Total validation time: {of.seconds} sec")
        self.log(
            f"  RMSE of the 10 m wind={of.wind_rmse:.6f} m/s, "
            f"of persistence={of.persistence_rmse:.6f} m/s"
        )
        values = {
            "loss/valid": of.loss,
            "RMSE of the 10 m wind (m per s)/forecast": of.wind_rmse,
            "RMSE of the 10 m wind (m per s)/persistence": of.persistence_rmse,
        }
        self._scalars(values, number)

    def _scalars(self, values: dict[str, float], number: int) -> None:
        if self.writer is not None:
            for name, value in values.items():
                self.writer.add_scalar(name, value, number)

    def close(self) -> None:
        self.log(f"Training memory high watermark: {self.memory.bytes()[1] / 1e9:.2f} GB.")
        self.log("DONE ---- rank 0")
        if self.writer is not None:
            self.writer.close()
