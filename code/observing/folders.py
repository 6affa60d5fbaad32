"""Where this rank will write what is recorded: tried before training, which may take days."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from checkpoints.agreement import from_all
from observing import memory_snapshot
from parallel.layout import Layout
from process.errors import FolderError


def check_folders(args: argparse.Namespace, layout: Layout) -> None:
    """All ranks call this, and all are refused where one is."""
    if args.tensorboard_dir or args.profile or args.record_memory_history:
        from_all(lambda: _try_folders(args, layout))


def _try_folders(args: argparse.Namespace, layout: Layout) -> None:
    for what, folder in _wanted(args, layout):
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            problem = None if os.access(folder, os.W_OK | os.X_OK) else "no right to write there"
        except OSError as error:
            problem = error.strerror
        if problem:
            raise FolderError(
                f"{what} cannot be written to {folder}: {problem}; name a folder that you may "
                "write to"
            )


def _wanted(args: argparse.Namespace, layout: Layout) -> list[tuple[str, str]]:
    found = []
    if args.tensorboard_dir and layout.everyone.last:
        found.append(("scalars (--tensorboard-dir)", args.tensorboard_dir))
    if args.profile and layout.rank in args.profile_ranks:
        found.append(("profiles (--profile-dir)", args.profile_dir))
    if args.record_memory_history:
        found.append(("memory traces (in COURSE_RUN_DIR, or here)", args.memory_dir))
    if args.record_memory_history and memory_snapshot.possible():
        folder = memory_snapshot.path_of(args, layout.rank).parent
        found.append(("snapshots (--memory-snapshot-path)", str(folder)))
    return found
