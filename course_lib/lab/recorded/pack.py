"""Packs runs that have ended into one file: what the course reads of them, without the rest."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import lzma
import os
import re
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from course_lib.lab.errors import LabError
from course_lib.lab.job import value_types
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.run_paths import RunPaths
from course_lib.lab.plain_files import plain
from course_lib.lab.queue.records import Record
from course_lib.lab.recorded import paths
from course_lib.lab.recorded.machine import machine
from course_lib.lab.recorded.recording import (
    FORMAT,
    INDEXED,
    LARGEST_PART_BYTES,
    PACKED_ONCE,
    Head,
    RecordedFile,
    RecordedRun,
    Recording,
    may_be_recorded,
)
from course_lib.lab.workspace import Workspace, write_bytes_atomically

LARGEST_BYTES = 3 << 20
"""Of one file of recorded runs, so that all of them are a small download."""
NOT_READ = frozenset(
    {"Ev Idx", "Record function id", "Concrete Inputs", "Input Strides"}
    | {"Fwd thread id", "Sequence number"}
)
"""Of the arguments of an operator in a trace: much of its bytes, and nobody asks for them, neither
a reader of the course nor the profiler's tab of TensorBoard."""
PRESET = 6
RANK = re.compile(r"rank(\d{1,6})")
XZ_OVER_ZLIB = 0.5
"""How much smaller xz makes what zlib does in a hurry, as found for traces."""
Place = tuple[int, str]
"""Number of a run, name of a file."""


@dataclass(frozen=True)
class Source:
    record: Record
    folder: Path


@dataclass(frozen=True)
class Packed:
    path: Path
    runs: int
    size_bytes: int
    left_out: tuple[str, ...]

    def __str__(self) -> str:
        text = f"{self.path}: {self.runs} runs, {self.size_bytes / 2**20:.2f} MiB"
        if self.left_out:
            text += f"; left out for their size: {len(self.left_out)} files"
        return text


def sources(workspace: Workspace, records: Sequence[Record]) -> list[Source]:
    """Of runs that have ended and are still there, also where a lesson cleaned them."""
    found = []
    for record in records:
        places = (workspace.runs / record.folder, workspace.kept / record.folder)
        folder = next((place for place in places if RunPaths(place).recipe.is_file()), None)
        if folder is not None and record.status is not None and record.status.ended:
            found.append(Source(record, folder))
    return found


def pack(
    runs: Sequence[Source],
    workspace: Workspace,
    device_pace: float,
    target: Path,
    site_name: str = "",
) -> Packed:
    """One file of these runs. With a `site_name` they are told as of another cluster than runs of
    the same site elsewhere, such as of the box on a machine with GPUs."""
    told = [_told(source, paths.folders(workspace.folder)) for source in runs]
    if site_name:
        told = [replace(one, site={**one.site, "name": site_name}) for one in told]
    room = LARGEST_BYTES
    while True:
        content = _packed(told, _fitting(told, room), device_pace)
        if len(content) <= LARGEST_BYTES:
            break
        room = int(room * 0.95 * LARGEST_BYTES / len(content))  # it was guessed how well xz does
        if room < LARGEST_BYTES // 8:
            raise LabError(f"{target.name}: logs and recipes of its runs have more than 3 MiB")
    write_bytes_atomically(target, content)
    head = Recording(target).head
    left_out = tuple(f"{run.folder}/{name}" for run in head.runs for name in run.left_out)
    return Packed(target, len(head.runs), len(content), left_out)


def _packed(told: list[_Told], fitting: set[Place], device_pace: float) -> bytes:
    body, packed = lzma.LZMACompressor(format=lzma.FORMAT_XZ, preset=PRESET), bytearray()
    entries = []
    for number, one in enumerate(told):
        files, left_out = [], []
        for name, content in one.files.items():
            if (number, name) in fitting:
                sha256 = hashlib.sha256(content).hexdigest()
                files.append(RecordedFile(name, len(content), sha256))
                packed += body.compress(content)
            else:
                left_out.append(name)
        entries.append(_entry(one, files, left_out))
    packed += body.flush()
    date = time.strftime("%Y-%m-%d")
    head = Head(machine=machine(), date=date, device_pace=device_pace, runs=entries)
    line = msgspec.json.encode(head) + b"\n"
    first = f"{FORMAT} {hashlib.sha256(line).hexdigest()}\n".encode()
    return first + line + bytes(packed)


def _fitting(told: list[_Told], room: int) -> set[Place]:
    """Traces are the large ones: those of rank 0 go in first, then the others', as long as there is
    room; of a rank all or none, so that runs can be compared."""
    files = [(number, name) for number, one in enumerate(told) for name in one.files]
    taken = 0
    fitting: set[Place] = set()
    for turn, group in groupby(sorted(files, key=_turn), key=_turn):
        places = [p for p in group if len(told[p[0]].files[p[1]]) <= LARGEST_PART_BYTES]
        contents = (told[number].files[name] for number, name in places)
        taken += int(XZ_OVER_ZLIB * sum(len(zlib.compress(content, 1)) for content in contents))
        if turn > 0 and taken > room:
            break
        fitting.update(places)
    return fitting


def _turn(place: Place) -> int:
    """Later ones are left out first."""
    folder, _, rest = place[1].partition("/")
    if folder == "profile":
        found = RANK.match(rest)
        return 2 + (int(found[1]) if found else 0)
    large = folder in ("memory", "monitor", "tensorboard") or place[1].endswith(INDEXED)
    return 1 if large else 0


@dataclass(frozen=True)
class _Told:
    record: Record
    recipe: dict[str, Any]
    site: dict[str, Any]
    files: dict[str, bytes]


def _told(source: Source, folders: dict[str, str]) -> _Told:
    """A run as others may read it: without folders, accounts and secrets of this machine."""
    asked_in = RunPaths(source.folder).recipe
    asked = value_types.parse(asked_in.read_text(encoding="utf-8"), str(asked_in), LabError)
    recipe, site = Recipe.from_dict(asked.get("recipe", asked)), dict(asked.get("site", {}))
    words = folders | paths.private_words(recipe, site)
    here = ("workspace", "programs", "data", "path", "venv", "recorded", *paths.PRIVATE)
    site = {name: value for name, value in site.items() if name not in here}
    files = {name: _clean(name, content, words) for name, content in _files(source.folder)}
    plainly = recipe.to_dict()
    plainly.pop("keywords", None)
    plainly.pop("made_by", None)
    return _Told(source.record, _without(plainly, words), _without(site, words), files)


def _without(table: dict[str, Any], words: dict[str, str]) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(json.dumps(table))
    return {name: paths.in_table(value, words) for name, value in told.items()}


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Links are not followed: what they lead to is not of this run."""
    for place, _, names in sorted(os.walk(folder, followlinks=False)):
        for name in sorted(names):
            path = Path(place, name)
            told = path.relative_to(folder).as_posix()
            if may_be_recorded(told) and not path.is_symlink():
                content = plain(path).read_bytes()
                if not told.endswith(PACKED_ONCE):
                    yield told, content
                    continue
                with contextlib.suppress(EOFError, OSError, zlib.error):  # a job that was killed
                    yield told, gzip.decompress(content)


def _clean(name: str, content: bytes, words: dict[str, str]) -> bytes:
    if name.startswith("tensorboard/"):
        return content  # its numbers have checksums of their own
    if name.startswith("profile/"):
        content = _slim(content)
    return paths.in_bytes(content, words)


def _slim(trace: bytes) -> bytes:
    """A trace without what no reader of the course asks for; as it is where it is none."""
    try:
        table = msgspec.json.decode(trace)
        for event in table["traceEvents"]:
            if arguments := event.get("args"):
                for name in NOT_READ & arguments.keys():
                    del arguments[name]
        table["traceName"] = ""
    except (ValueError, KeyError, TypeError, AttributeError):
        return trace
    return bytes(msgspec.json.encode(table))


def _entry(one: _Told, files: list[RecordedFile], left_out: list[str]) -> RecordedRun:
    record = one.record
    status = asdict(record.status) if record.status else {}
    return RecordedRun(
        name=record.name, job_id=record.job_id, submitted_unix_s=record.submitted_unix_s,
        status=status, recipe=one.recipe, site=one.site, files=files, left_out=left_out,
    )  # fmt: skip
