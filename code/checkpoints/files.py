"""The files of a checkpoint: which is the newest, is it whole, and how it becomes visible.

<folder>/iter_0000020/                      complete, or not there: renamed when all is written
    .metadata  __<rank>_0.distcp            of torch.distributed.checkpoint
    model.json                              of which model it is
    checksums.json                          size and CRC-32 of each of these files; written last
<folder>/latest_checkpointed_iteration.txt  which one is the newest
"""

from __future__ import annotations

import errno
import functools
import json
import os
import re
import shutil
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch.distributed as dist

from checkpoints.agreement import Group, from_all, from_first
from process.errors import AskedError

TRACKER = "latest_checkpointed_iteration.txt"
CHECKSUMS = "checksums.json"
BLOCK_BYTES = 2**22
MOST_LISTED_BYTES = 2**28


class CheckpointError(AskedError):
    """A checkpoint that is damaged, or of another model, or a folder that another job writes."""


def iteration_of(path: Path) -> int:
    return int(path.name.split(".")[0].removeprefix("iter_"))


# Choosing


def newest(folder: Path) -> Path | None:
    """The one to continue from, as far as names and sizes of files tell."""
    return next((path for path in candidates(folder) if isinstance(_listed(path), dict)), None)


def candidates(folder: Path) -> list[Path]:
    """Best first: what the tracker names, then the older ones, then those that are newer.

    Newer ones are left of an earlier run in the same folder, or of one that was killed just before
    it wrote the tracker.
    """
    # The longest last, since it is ours: somebody's copy may be called iter_20.
    named_so = sorted(folder.glob("iter_*"), key=lambda path: len(path.name))
    found = {iteration_of(p): p for p in named_so if re.fullmatch(r"iter_\d+", p.name)}
    for path in folder.glob("iter_*.replaced"):  # a save was killed between its two renames
        if re.fullmatch(r"iter_\d+\.replaced", path.name):
            found.setdefault(iteration_of(path), path)
    named = _named(folder)
    if named not in found:
        return [found[number] for number in sorted(found, reverse=True)]
    return [found[n] for n in sorted(found, key=lambda n: (n > named, -n))]


def _named(folder: Path) -> int | None:
    """The iteration in the tracker; None where it is missing or names none."""
    try:
        text = _small_file(folder / TRACKER, 64).strip()
    except OSError:
        return None
    return int(text) if re.fullmatch(rb"\d{1,18}", text) else None


def _small_file(path: Path, most_bytes: int) -> bytes:
    """Not of a pipe, which would wait for who writes, nor all of what has become huge."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a file")
    with path.open("rb") as file:
        size_bytes = os.fstat(file.fileno()).st_size  # `read` asks for memory before it reads
        return file.read(min(size_bytes, most_bytes))


def check_folder(folder: Path) -> None:
    """Of --load: what cannot be looked into is not the same as nothing."""
    try:
        names = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return
    except OSError as error:
        raise CheckpointError(
            f"nothing can be loaded from {folder}: {error.strerror}; give --load the folder that "
            "--save wrote to"
        ) from error
    if ".metadata" in names or CHECKSUMS in names:
        raise CheckpointError(
            f"{folder} is one checkpoint; give --load the folder that it lies in, {folder.parent} "
            f"({TRACKER} there says which one is taken)"
        )


def last_good(folder: Path) -> tuple[Path | None, list[str]]:
    """The checkpoint to continue from, every byte of it checked, and what there is to warn of.

    None where nothing has been saved. Where something has been saved and nothing of it is whole,
    that is an error: random weights would look like a run that goes on. All ranks call this.
    """
    from_first(lambda: check_folder(folder))
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
        f"no checkpoint in {folder} is whole ({what}), and training does not begin anew where a "
        f"run was to go on; bring one of them back from a copy, or leave out --load (or name an "
        f"empty folder) to start from random weights"
    )


def _warnings(folder: Path, taken: Path, first: Path, damaged: list[str]) -> list[str]:
    """One line for a tracker that misleads, and one for each checkpoint that was passed over."""
    named, tracker = _named(folder), folder / TRACKER
    reached = iteration_of(first)
    said = [f"checkpoint is damaged: {problem} in {folder}" for problem in damaged]
    if not tracker.exists():
        said.insert(0, f"{tracker} is missing")
    elif named is None:
        said.insert(0, f"{tracker} names no iteration")
    elif named != iteration_of(first):
        reached = named
        said.insert(0, f"{tracker} names iteration {named}, which is not there")
    lost = max(0, reached - iteration_of(taken))
    steps = "no step is" if not lost else "1 step is" if lost == 1 else f"{lost} steps are"
    return [f"{text}; continuing from {taken.name}: {steps} lost" for text in said]


# Checksums


def checksums(folder: Path, names: Iterable[str]) -> dict[str, list[int]]:
    """Size in bytes and CRC-32 by name.

    A CRC finds every flipped bit and every cut; against an attacker it is no use. It is taken at
    several times the speed of a cryptographic hash, so that a save hardly takes longer.
    """
    found = {}
    for name in names:
        crc, size = 0, 0
        with (folder / name).open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                crc, size = zlib.crc32(block, crc), size + len(block)
        found[name] = [size, crc]
    return found


def _listed(path: Path) -> dict[str, list[int]] | str:
    """What should be there; or the first thing that is missing, cut or cannot be read."""
    try:
        listed = json.loads(_small_file(path / CHECKSUMS, MOST_LISTED_BYTES))
        sizes = {name: (int(size), int(crc)) for name, (size, crc) in listed.items()}
        if ".metadata" not in sizes:
            raise ValueError("it does not list .metadata")
        others = {file.name for file in path.glob("__*")} - sizes.keys()
    except OSError as error:
        ours = not path.is_dir() or any((path / name).exists() for name in (CHECKSUMS, ".metadata"))
        return f"{CHECKSUMS}: {error.strerror}{'' if ours else ' (did another program write it?)'}"
    except (ValueError, TypeError, AttributeError):  # no JSON, or not of this form
        return f"{CHECKSUMS} is not readable"
    if others:  # one of the names in it was changed into another's
        return f"{CHECKSUMS} does not list {min(others)}"
    for name, (size, _) in sizes.items():
        try:
            there = (path / name).stat().st_size
        except (OSError, ValueError):
            return f"{name} is missing"
        if there != size:
            return f"{name} has {there} of {size} bytes"
    return {name: [size, crc] for name, (size, crc) in sizes.items()}


def _damage(path: Path) -> str | None:
    """What is wrong with a checkpoint, or None. The ranks share the reading."""
    listed = from_first(lambda: _listed(path))
    if isinstance(listed, str):
        return listed
    mine = sorted(listed)[dist.get_rank() :: dist.get_world_size()]
    return next((text for text in from_all(lambda: _differing(path, mine, listed)) if text), None)


def _differing(path: Path, names: list[str], listed: dict[str, list[int]]) -> str | None:
    for name in names:
        try:
            if checksums(path, [name])[name] != listed[name]:
                return f"{name} is not what was written (its checksum differs)"
        except OSError as error:
            return f"{name}: {error.strerror}"
    return None


# Writing


def fresh(making: Path) -> None:
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)


def write_json(path: Path, content: Any) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def seal(making: Path, group: Group = None) -> None:
    """Writes the checksums: each rank's of its own files, read back once. All ranks call this."""
    mine = f"__{dist.get_rank()}_"

    def written() -> dict[str, list[int]]:
        names = [path.name for path in making.iterdir() if path.name.startswith(mine)]
        common = [".metadata", "model.json"] if dist.get_rank() == 0 else []
        return checksums(making, sorted(names) + common)

    every = {name: sums for part in from_all(written, group) for name, sums in part.items()}
    from_first(lambda: write_json(making / CHECKSUMS, every), group)


def publish(making: Path, target: Path) -> None:
    replaced = target.with_name(f"{target.name}.replaced")
    if target.exists():  # moved away whole: what is deleted bit by bit could be taken for good
        shutil.rmtree(replaced, ignore_errors=True)
        target.rename(replaced)
    making.rename(target)
    tracker = target.parent / f"{TRACKER}.new"
    tracker.write_text(f"{iteration_of(target)}\n")
    tracker.replace(target.parent / TRACKER)
    shutil.rmtree(replaced, ignore_errors=True)


def outcome(folder: Path, iteration: int, problem: str | None) -> str:
    """What is said when a checkpoint is there, or could not be written."""
    if problem is None:
        return f"  successfully saved checkpoint from iteration {iteration:7d} to {folder}"
    return (
        f"ERROR: no checkpoint of iteration {iteration}: {problem}. Training goes on; the last "
        f"good checkpoint is {newest(folder) or 'none'}. Make room on the disk: "
        f"`df -h {folder}` says how much is left"
    )
