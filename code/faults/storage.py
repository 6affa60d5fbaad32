"""Disks that are full, and checkpoints that are half there."""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path

import torch.distributed as dist

from faults.fault import Fault


def number_of(folder: Path) -> int:
    return int(folder.name.split(".")[0].removeprefix("iter_"))


class DiskFull(Fault):
    """Files lead to `/dev/full`, which answers as a full disk does."""

    EVERY = 3

    def at_start(self, args: argparse.Namespace) -> None:
        if not args.save:
            args.save = str(Path(os.environ.get("COURSE_RUN_DIR", ".")) / "checkpoints")
            args.save_interval = self.EVERY

    def saving(self, folder: Path) -> None:
        if number_of(folder) >= self.iteration:
            for rank in range(dist.get_world_size()):
                (folder / f"rank{rank}.bin").symlink_to("/dev/full")


class KilledSaving(Fault):
    """The process is gone while a checkpoint is half written."""

    def sealing(self, folder: Path) -> None:
        if self.mine and number_of(folder) >= self.iteration:
            os.kill(os.getpid(), signal.SIGKILL)


class Damaged(Fault):
    """A file of the newest checkpoint has lost its second half: a file system that broke down."""

    def saved(self, folder: Path) -> None:
        if number_of(folder) >= self.iteration:
            largest = max(folder.glob("rank*.bin"), key=lambda file: file.stat().st_size)
            os.truncate(largest, largest.stat().st_size // 2)
