"""Deleting runs: only what the course made, shown before it is done."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.lab.errors import LabError
from course_lib.lab.job.unfinished import Unfinished
from course_lib.lab.queue.records import Record, Registry
from course_lib.lab.runs.run import Run
from course_lib.lab.workspace import Workspace
from course_lib.words import told

MIB = 1 << 20
KEEP = "COURSE_KEEP_RUNS"
"""Set by `course run --keep`: whole runs are then moved to where `course record` looks for them."""


@dataclass(frozen=True)
class Target:
    record: Record
    path: Path
    whole: bool
    size_bytes: int


@dataclass(frozen=True)
class Cleaning:
    """What is deleted, or would be."""

    targets: tuple[Target, ...]
    refused: tuple[str, ...] = ()
    done: bool = False

    @property
    def size_bytes(self) -> int:
        return sum(target.size_bytes for target in self.targets)

    def __repr__(self) -> str:
        return told(self.words("clean(…, yes=True)"))

    def words(self, what_deletes: str) -> str:
        lines = [_deleted(target, self.done) for target in self.targets]
        lines += [f"left alone: {text}" for text in self.refused]
        if not self.targets:
            lines.append("nothing to delete")
        elif not self.done:
            lines.append(f"{self.size_bytes / MIB:.1f} MiB in all; {what_deletes} deletes it")
        return "\n".join(lines)


def select(
    runs: Sequence[Run], which: Sequence[Run | Unfinished | str | int]
) -> tuple[list[Run], list[str]]:
    """The runs meant, and what names none: a lesson cleans up after exercises left undone too."""
    if not which:
        return [run for run in runs if run.ended and run.folder.exists()], []
    chosen: dict[int, Run] = {}
    unknown = []
    for one in which:
        if isinstance(one, Unfinished):
            continue
        found = [run for run in runs if _is_meant(run, one)]
        chosen |= {id(run): run for run in found}
        unknown += [] if found else [f"no run {one!r} here"]
    return list(chosen.values()), unknown


def _is_meant(run: Run, one: Run | str | int) -> bool:
    """Numbers of jobs repeat where runs of several clusters, or recorded ones, lie together."""
    if isinstance(one, Run):
        return run.folder == one.folder
    return one in (run.name, run.job_id)


def plan(
    workspace: Workspace, runs: Iterable[Run], only: Sequence[str], refused: Sequence[str] = ()
) -> Cleaning:
    """Every folder is proven to be ours before anything is deleted."""
    targets: list[Target] = []
    refused = list(refused)
    for run in runs:
        if problem := _not_ours(workspace, run):
            refused.append(f"{run.name} (job {run.job_id}): {problem}")
        elif only:
            targets += _parts(run, only)
        else:
            targets.append(Target(run._record, run.folder, True, size_bytes(run.folder)))
    return Cleaning(tuple(targets), tuple(refused))


def clean(registry: Registry, cleaning: Cleaning) -> Cleaning:
    for target in cleaning.targets:
        if target.whole:
            # First the name goes, so that a run half deleted is never taken for a run.
            doomed = target.path.with_name(f".deleting-{target.path.name}")
            target.path.rename(doomed)
            registry.update(target.record, cleaned=True)
            if os.environ.get(KEEP, "") not in ("", "0"):
                keep(registry.workspace, doomed, target.path.name)
            else:
                shutil.rmtree(doomed)
        elif target.path.is_dir() and not target.path.is_symlink():
            shutil.rmtree(target.path)
        else:
            target.path.unlink()
    return Cleaning(cleaning.targets, cleaning.refused, done=True)


def keep(workspace: Workspace, doomed: Path, name: str) -> None:
    workspace.kept.mkdir(parents=True, exist_ok=True)
    doomed.rename(workspace.kept / name)


def size_bytes(path: Path) -> int:
    """Links are counted as links: what they point to is not deleted either."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum(
        (Path(folder) / name).lstat().st_size
        for folder, _, names in os.walk(path, followlinks=False)
        for name in names
    )


def _not_ours(workspace: Workspace, run: Run) -> str:
    folder, recipe = run.folder, run.paths.recipe
    try:
        mode = folder.lstat().st_mode
    except FileNotFoundError:
        return "its folder is gone already"
    if not run.ended and run.state != "UNKNOWN":
        return f"it has not ended ({run.reason})"
    if not stat.S_ISDIR(mode) or folder.resolve().parent != workspace.runs.resolve():
        return f"{folder} is a link or lies outside {workspace.runs}"
    if not recipe.is_file():
        return f"{folder} has no {recipe.name}, so the course cannot prove that it made it"
    return ""


def _parts(run: Run, only: Sequence[str]) -> list[Target]:
    proofs = [path.name for path in run.paths.proofs]
    for name in only:
        if name in proofs or Path(name).name != name or name in ("", ".", "..") or "\0" in name:
            raise LabError(
                f"only={name!r} is not a part that can be deleted alone; use names within a run "
                'folder such as "checkpoints", "profile", "memory", "tensorboard"'
            )
    paths = [run.folder / name for name in only]
    found = [path for path in paths if path.exists() or path.is_symlink()]
    return [Target(run._record, path, False, size_bytes(path)) for path in found]


def _deleted(target: Target, done: bool) -> str:
    size_mib = target.size_bytes / MIB
    if done:
        return f"deleted {_label(target)} ({size_mib:.1f} MiB)"
    return f"would delete {_label(target)} ({size_mib:.1f} MiB)"


def _label(target: Target) -> str:
    within = "" if target.whole else f"{target.path.parent.name}/"
    return f"{within}{target.path.name}"
