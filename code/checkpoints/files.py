"""Files of a checkpoint: finding the newest, checking it and making it visible.

<folder>/iter_0000020/                      complete or absent: renamed when all is written
    rank<R>.bin  tensors.json               slices of tensors, and their positions (slices.py)
    model.json  progress.json               model and progress of the run
    checksums.json                          size and CRC-32 of each of these files; written last
<folder>/latest_checkpointed_iteration.txt  the newest checkpoint
"""

from __future__ import annotations

import errno
import functools
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import torch.distributed as dist

from checkpoints.agreement import Group, by_rank, from_all, from_first
from process.errors import AskedError
from process.reading import content_of, read_json

TRACKER = "latest_checkpointed_iteration.txt"
CHECKSUMS = "checksums.json"
BLOCK_BYTES = 2**22
OURS = ("tensors.json", "model.json", "progress.json")
# Errors of reading a file that another program wrote.
FOREIGN = (ValueError, LookupError, TypeError, AttributeError)
FULL = "Make room there: `df -h {0}`, `df -i {0}` and `quota -s` say how much is left"
FAILED = (
    "`ls -ld {0}`, `mount` and `ulimit -f` say what may be written there, `dmesg` if a disk failed"
)

T = TypeVar("T")


class CheckpointError(AskedError):
    """Error: a checkpoint is damaged or of another model, or another job writes to its folder."""


def write_json(path: Path, content: Any) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def ours(source: Path, reading: Callable[[], T]) -> T:
    """Return the result of reading a checkpoint whose checksums are right."""
    try:
        return reading()
    except FOREIGN as error:
        raise CheckpointError(
            f"{source} cannot be read, though its checksums are right ({error}): another version "
            "of this program wrote it, or another program; move it away to load the one before"
        ) from error


def iteration_of(path: Path) -> int:
    return int(path.name.split(".")[0].removeprefix("iter_"))


# Choosing


def newest(folder: Path) -> Path | None:
    """Return the checkpoint to continue from, judged by file names and sizes only."""
    return next((path for path in candidates(folder) if isinstance(_listed(path), dict)), None)


def candidates(folder: Path) -> list[Path]:
    """Return the checkpoints, best first: the tracker's, then older ones, then newer ones.

    Newer ones are left over from an earlier run in the same folder, or from a run that was killed
    just before it wrote the tracker."""
    # The longest name first: iter_N.replaced counts only if a save was killed between its renames.
    paths = sorted(folder.glob("iter_*"), reverse=True)
    found = {iteration_of(p): p for p in paths if re.fullmatch(r"iter_\d+(\.replaced)?", p.name)}
    named = _named(folder)
    if named not in found:
        return [found[number] for number in sorted(found, reverse=True)]
    return [found[n] for n in sorted(found, key=lambda n: (n > named, -n))]


def _named(folder: Path) -> int | None:
    """Return the iteration in the tracker; None if the tracker is missing or names none."""
    try:
        return int(content_of(folder / TRACKER))
    except (OSError, ValueError):
        return None


def last_good(folder: Path) -> tuple[Path | None, list[str]]:
    """Return the checkpoint to continue from, with all bytes checked, and warnings.

    Return None if nothing has been saved. Raise an error if something was saved but nothing is
    complete: random weights would look like a continued run. All ranks call this."""
    paths, tracked = from_first(lambda: (candidates(folder), (folder / TRACKER).exists()))
    if not paths and not tracked:
        return None, []
    damaged: list[str] = []
    for path in paths:
        problem = _damage(path)
        if problem is None:
            said = functools.partial(_warnings, folder, path, paths[0], damaged)
            return path, from_first(said)
        damaged.append(f"{path.name}: {problem}")
    what = "; ".join(damaged) or f"{TRACKER} is there, the checkpoints are gone"
    raise CheckpointError(
        f"no checkpoint in {folder} is complete ({what}), and a run with --load does not start "
        "from random weights; restore a copy, leave out --load, or name an empty folder"
    )


def _warnings(folder: Path, taken: Path, first: Path, damaged: list[str]) -> list[str]:
    """Return a warning if the tracker is wrong, and one for each damaged checkpoint."""
    said = [f"checkpoint is damaged: {problem} in {folder}" for problem in damaged]
    named, lost = _named(folder), iteration_of(first) - iteration_of(taken)
    if named != iteration_of(first):
        wrong = "no iteration" if named is None else f"iteration {named}, which is not there"
        said.insert(0, f"{folder / TRACKER} names {wrong}")
        lost = (named or iteration_of(first)) - iteration_of(taken)
    steps = "1 step is" if lost == 1 else f"{max(0, lost) or 'no'} steps are"
    return [f"{text}; continuing from {taken.name}: {steps} lost" for text in said]


# Checksums


def checksums(folder: Path, names: Iterable[str]) -> dict[str, list[int]]:
    """Return size in bytes and CRC-32 by name.

    A CRC detects every flipped bit and every truncation, but no attack. It is several times faster
    than a cryptographic hash, so it hardly slows a save."""
    found = {}
    for name in names:
        crc, size = 0, 0
        with (folder / name).open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                crc, size = zlib.crc32(block, crc), size + len(block)
        found[name] = [size, crc]
    return found


def _listed(path: Path) -> dict[str, list[int]] | str:
    """Return the files that should exist, or a text about the first that is missing or damaged."""
    try:
        listed: dict[str, list[int]] = read_json(path / CHECKSUMS)
        return _differing_in_name_or_size(path, listed) or listed
    except OSError as error:
        return f"{CHECKSUMS}: {error.strerror}"
    except FOREIGN:
        return f"{CHECKSUMS} is not readable"


def _differing_in_name_or_size(path: Path, listed: dict[str, list[int]]) -> str | None:
    others = {*OURS, *(file.name for file in path.glob("rank*.bin"))} - listed.keys()
    if others:  # an entry's name was changed
        return f"{CHECKSUMS} does not list {min(others)}"
    for name, (size, _) in listed.items():
        if not (path / name).is_file():
            return f"{name} is missing"
        if (there := (path / name).stat().st_size) != size:
            return f"{name} has {there} of {size} bytes"
    return None


def _damage(path: Path) -> str | None:
    """Return a description of a checkpoint's damage, or None. The ranks divide the reading."""
    listed = from_first(lambda: _listed(path))
    if isinstance(listed, str):
        return listed
    mine = sorted(listed)[dist.get_rank() :: dist.get_world_size()]
    return next((text for text in from_all(lambda: _differing(path, mine, listed)) if text), None)


def _differing(path: Path, names: list[str], listed: dict[str, list[int]]) -> str | None:
    for name in names:
        try:
            if checksums(path, [name])[name] != listed[name]:
                return f"{name} is damaged: its checksum differs"
        except OSError as error:
            return f"{name}: {error.strerror}"
    return None


# Writing


def fresh(making: Path) -> None:
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)


def seal(making: Path, group: Group = None) -> None:
    """Write the checksums; each rank reads its own files back once. All ranks call this."""
    names = [f"rank{dist.get_rank()}.bin", *(OURS if dist.get_rank() == 0 else ())]
    parts = from_all(lambda: checksums(making, names), group)
    every = {name: sums for part in parts for name, sums in part.items()}
    from_first(lambda: write_json(making / CHECKSUMS, every), group)


def publish(making: Path, target: Path) -> None:
    replaced = target.with_name(f"{target.name}.replaced")
    if target.exists():  # renamed as a whole: a partly deleted folder could look complete
        shutil.rmtree(replaced, ignore_errors=True)
        target.rename(replaced)
    making.rename(target)
    tracker = target.parent / f"{TRACKER}.new"
    tracker.write_text(f"{iteration_of(target)}\n")
    tracker.replace(target.parent / TRACKER)
    shutil.rmtree(replaced, ignore_errors=True)


def outcome(folder: Path, iteration: int, problem: OSError | None) -> str:
    """Return the log line for a checkpoint that was saved or could not be written."""
    if problem is None:
        return f"  successfully saved checkpoint from iteration {iteration:7d} to {folder}"
    cure = (FULL if problem.errno in (errno.ENOSPC, errno.EDQUOT) else FAILED).format(folder)
    return (
        f"ERROR: no checkpoint of iteration {iteration}: {by_rank(problem)}. Training continues; "
        f"the last good checkpoint is {newest(folder) or 'none'}. {cure}"
    )
