"""Deleting runs. Only files that the course made are deleted, and they are shown first."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from course_lib.lab.job.unfinished import Unfinished
from course_lib.lab.queue.records import Record, Registry
from course_lib.lab.runs.run import Run
from course_lib.lab.workspace import Workspace
from course_lib.words import _

MIB = 1 << 20
# Set by `course run --keep`: whole runs are then moved to the folder that `course record` reads.
KEEP = "COURSE_KEEP_RUNS"


@dataclass(frozen=True)
class Target:
    record: Record
    path: Path
    size_bytes: int


@dataclass(frozen=True)
class Cleaning:
    """Files that are deleted, or would be deleted."""

    targets: tuple[Target, ...]
    refused: tuple[str, ...] = ()
    done: bool = False

    @property
    def size_bytes(self) -> int:
        return sum(target.size_bytes for target in self.targets)

    def __repr__(self) -> str:
        return self.words("clean(…, yes=True)")

    def words(self, what_deletes: str) -> str:
        deleted = _("deleted") if self.done else _("would delete")
        lines = [
            f"{deleted} {target.path.name} ({target.size_bytes / MIB:.1f} MiB)"
            for target in self.targets
        ]
        lines += [_("not deleted: {text}", text=text) for text in self.refused]
        if not self.targets:
            lines.append(_("nothing to delete"))
        elif not self.done:
            lines.append(
                _(
                    "{size_bytes:.1f} MiB in all; {what_deletes} deletes it",
                    size_bytes=self.size_bytes / MIB,
                    what_deletes=what_deletes,
                )
            )
        return "\n".join(lines)


def select(
    runs: Sequence[Run], which: Sequence[Run | Unfinished | str | int]
) -> tuple[list[Run], list[str]]:
    """Return the selected runs, and a message for each name without a run. Unfinished exercises are
    skipped, because a lesson also cleans up after them."""
    if not which:
        return [run for run in runs if run.ended and run.folder.exists()], []
    chosen: dict[int, Run] = {}
    unknown = []
    for one in which:
        if isinstance(one, Unfinished):
            continue
        found = [run for run in runs if _matches(run, one)]
        chosen |= {id(run): run for run in found}
        unknown += [] if found else [_("no run {one!r} here", one=one)]
    return list(chosen.values()), unknown


def _matches(run: Run, one: Run | str | int) -> bool:
    """Return True if `one` means this run. Job ids repeat between clusters and recordings."""
    if isinstance(one, Run):
        return run.folder == one.folder
    return one in (run.name, run.job_id)


def plan(workspace: Workspace, runs: Iterable[Run], refused: Sequence[str] = ()) -> Cleaning:
    """Return what would be deleted. Every folder is first proven to be a run of the course."""
    targets: list[Target] = []
    refused = list(refused)
    for run in runs:
        if problem := _not_ours(workspace, run):
            refused.append(f"{run.title}: {problem}")
        else:
            targets.append(Target(run._record, run.folder, size_bytes(run.folder)))
    return Cleaning(tuple(targets), tuple(refused))


def clean(registry: Registry, cleaning: Cleaning) -> Cleaning:
    for target in cleaning.targets:
        # Rename first, so that a partly deleted run is never mistaken for a run.
        doomed = target.path.with_name(f".deleting-{target.path.name}")
        target.path.rename(doomed)
        registry.update(target.record, cleaned=True)
        if os.environ.get(KEEP, "") not in ("", "0"):
            kept = registry.workspace.kept
            kept.mkdir(parents=True, exist_ok=True)
            doomed.rename(kept / target.path.name)
        else:
            shutil.rmtree(doomed)
    return replace(cleaning, done=True)


def size_bytes(path: Path) -> int:
    """Return the size of a folder. Links count as links, because their targets are not deleted."""
    return sum(
        (Path(folder) / name).lstat().st_size
        for folder, _unused, names in os.walk(path, followlinks=False)
        for name in names
    )


def _not_ours(workspace: Workspace, run: Run) -> str:
    folder, recipe = run.folder, run.paths.recipe
    try:
        mode = folder.lstat().st_mode
    except FileNotFoundError:
        return _("its folder is already deleted")
    if not run.ended and run.state != "UNKNOWN":
        return _("it has not ended ({reason})", reason=run.reason)
    if not stat.S_ISDIR(mode) or folder.resolve().parent != workspace.runs.resolve():
        return _("{folder} is a link or lies outside {runs}", folder=folder, runs=workspace.runs)
    if not recipe.is_file():
        return _(
            "{folder} has no {name}, so the course may not have made this folder",
            folder=folder,
            name=recipe.name,
        )
    return ""
