"""Packing of ended runs into one file with all data that the course reads of them."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import lzma
import os
import re
import tarfile
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.structs import replace

from course_lib.lab.errors import LabError
from course_lib.lab.job.recipe import Recipe, parse_toml
from course_lib.lab.queue.records import Record
from course_lib.lab.queue.slurm import Status
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
from course_lib.lab.workspace import RunPaths, Workspace, plain, write_bytes_atomically
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
# A run without its files, and the content of each file.
Cleaned = tuple[RecordedRun, dict[str, bytes]]


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
    folders = anonymous.folders(workspace.folder)
    cleaned = [_cleaned(source, folders, site_name) for source in runs]
    empty = Manifest(
        machine=machine(), date=time.strftime("%Y-%m-%d"), device_pace=device_pace, runs=[],
        printed=dict(printed or {}),
    )  # fmt: skip
    turns = {_turn(name) for _run, files in cleaned for name in files}
    for last_turn in sorted(turns, reverse=True):
        manifest, content = _packed(cleaned, last_turn, empty)
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
    return _(
        "{path}: {runs} runs, {size_mib:.2f} MiB; {left_out} files were too "
        "large and are not included",
        path=target,
        runs=len(manifest.runs),
        size_mib=len(content) / 2**20,
        left_out=sum(len(run.left_out) for run in manifest.runs),
    )


def _packed(cleaned: list[Cleaned], last_turn: int, empty: Manifest) -> tuple[Manifest, bytes]:
    """Pack the files up to a turn. All runs have the same turn, so that they can be compared."""
    entries: list[RecordedRun] = []
    contents: dict[str, bytes] = {}
    for run, files in cleaned:
        kept = {
            name: content
            for name, content in files.items()
            if _turn(name) <= last_turn and len(content) <= LARGEST_PART_BYTES
        }
        listed = [
            RecordedFile(name, len(content), hashlib.sha256(content).hexdigest())
            for name, content in kept.items()
        ]
        left_out = [name for name in files if name not in kept]
        entries.append(replace(run, files=listed, left_out=left_out))
        contents |= {f"{run.folder}/{name}": content for name, content in kept.items()}
    manifest = replace(empty, runs=entries)
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


def _cleaned(source: Source, folders: dict[str, str], site_name: str) -> Cleaned:
    """Read a run and remove folders, accounts and secrets of this machine."""
    asked_in, record = RunPaths(source.folder).recipe, source.record
    asked = parse_toml(asked_in.read_text(encoding="utf-8"), str(asked_in), LabError)
    recipe, site = Recipe.from_dict(asked.get("recipe", asked)), dict(asked.get("site", {}))
    words = folders | anonymous.folders_of_run(site) | anonymous.private_words(recipe, site)
    here = ("workspace", "programs", "data", "path", "venv", "recorded", *anonymous.PRIVATE)
    site = {name: value for name, value in site.items() if name not in here}
    what = {k: v for k, v in recipe.to_dict().items() if k not in ("keywords", "made_by")}
    run = RecordedRun(
        name=record.name, job_id=record.job_id, submitted_unix_s=record.submitted_unix_s,
        status=record.status or Status(), recipe=anonymous.in_table(what, words),
        site=anonymous.in_table(site, words) | ({"name": site_name} if site_name else {}),
    )  # fmt: skip
    return run, {name: _clean(name, content, words) for name, content in _files(source.folder)}


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
