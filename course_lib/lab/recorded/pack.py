"""Packing of ended runs into one file with all data that the course reads of them."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import tarfile
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from course_lib.lab.errors import LabError
from course_lib.lab.job.recipe import Recipe, parse_toml
from course_lib.lab.queue.records import Record
from course_lib.lab.recorded import anonymous
from course_lib.lab.recorded.machine import machine
from course_lib.lab.recorded.recording import (
    INDEXED,
    LARGEST_PART_BYTES,
    MANIFEST,
    ZIPPED,
    Manifest,
    RecordedFile,
    RecordedRun,
    may_be_recorded,
)
from course_lib.lab.workspace import RunPaths, Workspace, folder_name, plain, write_bytes_atomically
from course_lib.words import _

# Size limit of one file of recorded runs, so that all files together are a small download.
LARGEST_BYTES = 3 << 20
# Arguments of operators in a trace that neither the course nor TensorBoard's profiler tab reads.
# They make up a large part of a trace.
NOT_READ = frozenset(
    {"Ev Idx", "Record function id", "Concrete Inputs", "Input Strides"}
    | {"Fwd thread id", "Sequence number"}
)
PRESET = 6
RANK = re.compile(r"rank(\d{1,6})")


@dataclass(frozen=True)
class Source:
    record: Record
    folder: Path


def sources(workspace: Workspace, records: Sequence[Record]) -> list[Source]:
    """Find runs that have ended and still exist, even if a lesson cleaned them."""
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
    printed: Mapping[str, str] | None = None,
) -> str:
    """Write these runs to one file and return a summary. With a `site_name`, the runs are stored
    under another cluster name. This separates them from runs of the same site elsewhere, such as
    the box on a machine with GPUs."""
    clean_runs = [_clean_run(source, anonymous.folders(workspace.folder)) for source in runs]
    if site_name:
        clean_runs = [replace(one, site={**one.site, "name": site_name}) for one in clean_runs]
    turns = {_turn(name) for one in clean_runs for name in one.files}
    for last_turn in sorted(turns, reverse=True):
        manifest, content = _packed(clean_runs, last_turn, device_pace, dict(printed or {}))
        if len(content) <= LARGEST_BYTES:
            break
    else:
        raise LabError(
            _(
                "{name}: the logs and recipes of these runs take more than 3 MiB; "
                "record fewer runs",
                name=target.name,
            )
        )
    write_bytes_atomically(target, content)
    left_out = sum(len(run.left_out) for run in manifest.runs)
    return _(
        "{path}: {runs} runs, {size_mib:.2f} MiB; {left_out} files were too "
        "large and are not included",
        path=target,
        runs=len(manifest.runs),
        size_mib=len(content) / 2**20,
        left_out=left_out,
    )


def _packed(
    clean_runs: list[_CleanRun], last_turn: int, device_pace: float, printed: dict[str, str]
) -> tuple[Manifest, bytes]:
    """Pack the files up to a turn. All runs have the same turn, so that they can be compared."""
    entries, contents = [], {}
    for one in clean_runs:
        files, left_out = [], []
        for name, content in one.files.items():
            if _turn(name) > last_turn or len(content) > LARGEST_PART_BYTES:
                left_out.append(name)
                continue
            files.append(RecordedFile(name, len(content), hashlib.sha256(content).hexdigest()))
            contents[f"{folder_name(one.record.name, one.record.job_id)}/{name}"] = content
        entries.append(_entry(one, files, left_out))
    date = time.strftime("%Y-%m-%d")
    manifest = Manifest(
        machine=machine(), date=date, device_pace=device_pace, runs=entries, printed=printed
    )
    return manifest, archive({MANIFEST: msgspec.json.encode(manifest)} | contents)


def archive(contents: Mapping[str, bytes]) -> bytes:
    """Return a tar.xz of plain files without owner or time."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as file:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return lzma.compress(packed.getvalue(), preset=PRESET)


def _turn(name: str) -> int:
    """Return the turn of a file. Files with a later turn are left out first. Traces are large and
    come last; rank 0's traces are kept longest."""
    folder, _unused, rest = name.partition("/")
    if folder == "profile":
        found = RANK.match(rest)
        return 2 + (int(found[1]) if found else 0)
    large = folder in ("memory", "monitor", "tensorboard") or name.endswith(INDEXED)
    return 1 if large else 0


@dataclass(frozen=True)
class _CleanRun:
    record: Record
    recipe: dict[str, Any]
    site: dict[str, Any]
    files: dict[str, bytes]


def _clean_run(source: Source, folders: dict[str, str]) -> _CleanRun:
    """Read a run and remove folders, accounts and secrets of this machine."""
    asked_in = RunPaths(source.folder).recipe
    asked = parse_toml(asked_in.read_text(encoding="utf-8"), str(asked_in), LabError)
    recipe, site = Recipe.from_dict(asked.get("recipe", asked)), dict(asked.get("site", {}))
    words = folders | anonymous.folders_of_run(site) | anonymous.private_words(recipe, site)
    here = ("workspace", "programs", "data", "path", "venv", "recorded", *anonymous.PRIVATE)
    site = {name: value for name, value in site.items() if name not in here}
    files = {name: _clean(name, content, words) for name, content in _files(source.folder)}
    plainly = recipe.to_dict()
    plainly.pop("keywords", None)
    plainly.pop("made_by", None)
    return _CleanRun(source.record, _without(plainly, words), _without(site, words), files)


def _without(table: dict[str, Any], words: dict[str, str]) -> dict[str, Any]:
    plain_table: dict[str, Any] = json.loads(json.dumps(table))
    return {name: anonymous.in_table(value, words) for name, value in plain_table.items()}


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a run without links, whose targets are not part of the run."""
    for place, _unused, names in sorted(os.walk(folder, followlinks=False)):
        for name in sorted(names):
            path = Path(place, name)
            name_in_run = path.relative_to(folder).as_posix()
            if may_be_recorded(name_in_run) and not path.is_symlink():
                content = plain(path).read_bytes()
                if not name_in_run.endswith(ZIPPED):
                    yield name_in_run, content
                    continue
                with contextlib.suppress(EOFError, OSError, zlib.error):  # the job was killed
                    yield name_in_run, gzip.decompress(content)


def _clean(name: str, content: bytes, words: dict[str, str]) -> bytes:
    if name.startswith("tensorboard/"):
        return content  # its numbers have their own checksums
    if name.startswith("profile/"):
        content = _slim(content)
    return anonymous.in_bytes(content, words)


def _slim(trace: bytes) -> bytes:
    """Remove data that no reader of the course uses from a trace."""
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


def _entry(one: _CleanRun, files: list[RecordedFile], left_out: list[str]) -> RecordedRun:
    record = one.record
    status = asdict(record.status) if record.status else {}
    return RecordedRun(
        name=record.name, job_id=record.job_id, submitted_unix_s=record.submitted_unix_s,
        status=status, recipe=one.recipe, site=one.site, files=files, left_out=left_out,
    )  # fmt: skip
