"""Faults of storage: full disks, and incomplete checkpoints."""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path

import torch.distributed as dist

from checkpoints.files import iteration_of
from faults.fault import Fault


class DiskFull(Fault):
    """Fault: the files are links to `/dev/full`, which acts like a full disk."""

    EVERY = 3

    def at_start(self, args: argparse.Namespace) -> None:
        if not args.save:
            args.save = str(Path(os.environ.get("COURSE_RUN_DIR", ".")) / "checkpoints")
            args.save_interval = self.EVERY

    def saving(self, folder: Path) -> None:
        if iteration_of(folder) >= self.iteration:
            for rank in range(dist.get_world_size()):
                (folder / f"rank{rank}.bin").symlink_to("/dev/full")


class KilledSaving(Fault):
    """Fault: the process ends while a checkpoint is half written."""

    def sealing(self, folder: Path) -> None:
        if self.mine and iteration_of(folder) >= self.iteration:
            os.kill(os.getpid(), signal.SIGKILL)


class Damaged(Fault):
    """Fault: the newest checkpoint's largest file is cut in half, as by a broken file system."""

    def saved(self, folder: Path) -> None:
        if iteration_of(folder) >= self.iteration:
            largest = max(folder.glob("rank*.bin"), key=lambda file: file.stat().st_size)
            os.truncate(largest, largest.stat().st_size // 2)
