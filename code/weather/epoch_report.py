"""What train_vit.py prints, draws and keeps: a few lines per epoch, by the first rank."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from observing.reporting import say, world_line
from parallel.layout import Layout
from process.device import MemoryUse
from weather.configuration import ROWS
from weather.fields import FIELDS, WIND_10M


@dataclass(frozen=True)
class Judged:
    """Of all validation pairs, and one of them as a picture: [fields, height, width], scaled."""

    loss: float
    wind_rmse: float
    persistence_rmse: float
    seconds: float
    forecast: Tensor | None = None
    truth: Tensor | None = None
    before: Tensor | None = None


class EpochReport:
    def __init__(self, args: argparse.Namespace, rank: int, device: torch.device) -> None:
        self.args, self.speaks = args, rank == 0
        self.memory = MemoryUse(device)
        self.writer = self._writer()

    def _writer(self) -> Any:
        if not (self.args.tensorboard_dir and self.speaks):
            return None
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(self.args.tensorboard_dir)

    def log(self, text: str) -> None:
        """A line as Python's `logging` writes it."""
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
        """Activations of the whole batch are there: about the most of a step."""
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
        if self.writer is not None and of.forecast is not None and of.truth is not None:
            picture = torch.cat([coloured(of.truth), coloured(of.forecast)], dim=-1)
            self.writer.add_image("wind eastward at 10 m/truth, forecast", picture, number)

    def _scalars(self, values: dict[str, float], number: int) -> None:
        if self.writer is not None:
            for name, value in values.items():
                self.writer.add_scalar(name, value, number)

    def keep(self, of: Judged, means: np.ndarray, stds: np.ndarray, latitudes: np.ndarray) -> None:
        """The last forecast as numbers in the units of the files, for whoever wants to draw it."""
        if not (self.args.forecast_file and self.speaks) or of.forecast is None:
            return
        path = Path(self.args.forecast_file)
        path.parent.mkdir(parents=True, exist_ok=True)
        parts = {"forecast": of.forecast, "truth": of.truth, "before": of.before}
        values = {
            name: p.float().cpu().numpy() * stds + means
            for name, p in parts.items()
            if p is not None
        }
        unfinished = path.with_name(f".{path.name}.unfinished.npz")
        np.savez_compressed(
            unfinished, names=np.array(FIELDS), latitudes=latitudes, **values
        )  # fmt: skip
        unfinished.replace(path)

    def close(self) -> None:
        self.log(f"Training memory high watermark: {self.memory.bytes()[1] / 1e9:.2f} GB.")
        self.log("DONE ---- rank 0")
        if self.writer is not None:
            self.writer.close()


def coloured(fields: Tensor, spread: float = 2.5) -> Tensor:
    """[3, height, width]: the eastward wind at 10 m, from blue (west) over white to red."""
    value = (fields[WIND_10M[0]].float().cpu() / spread).clamp(-1, 1)
    red, blue = 1 + value.clamp(max=0), 1 - value.clamp(min=0)
    larger = max(1, 256 // value.shape[0])
    picture = torch.stack([red, torch.minimum(red, blue), blue])
    return picture.repeat_interleave(larger, 1).repeat_interleave(larger, 2)
