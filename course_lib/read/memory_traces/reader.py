"""`read.memory`: reader of every format of memory over time, from a file or a folder."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from course_lib.read import lines
from course_lib.read.files import PathLike, found_files, rank_of_trace
from course_lib.read.memory_traces.course_format import FORMAT, read_course_trace
from course_lib.read.memory_traces.cuda_snapshot import read_snapshot
from course_lib.read.memory_traces.timeline import Memory, MemoryTimeline
from course_lib.read.memory_traces.torch_profiler import from_trace, read_raw
from course_lib.read.messages import N_, _
from course_lib.read.profiler_traces.trace_file import read_trace

_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".pickle", ".pkl", ".raw.gz", ".raw")


def memory(path: PathLike | Iterable[PathLike]) -> Memory:
    """Read memory traces of the course, profiler traces, raw timelines and CUDA snapshots.

    A run folder is read from its `memory` folder, else from its `profile` folder."""
    timelines: list[MemoryTimeline] = []
    notes: list[str] = []
    missing = N_("no memory trace at {path}; give a file or a run folder")
    for file in found_files(path, ("memory", "profile"), _is_trace, missing):
        try:
            found = _read(file)
        except (pickle.UnpicklingError, lines.UnreadableError) as error:
            notes.append(f"{file}: {error}")
            continue
        if not found:
            notes.append(_("{file}: it records no memory", file=file))
        timelines += found
    timelines.sort(key=lambda item: (item.rank is None, item.rank or 0, item.source, item.device))
    return Memory(tuple(timelines), tuple(notes))


def _is_trace(path: Path) -> bool:
    return path.name.endswith(_SUFFIXES)


def _read(path: Path) -> list[MemoryTimeline]:
    head = _head(path)
    if FORMAT.encode() in head.split(b"\n", 1)[0]:
        found = read_course_trace(path)
        return [found] if found else []
    if head[:1] == b"\x80" or path.suffix in (".pickle", ".pkl"):
        return _snapshot(path)
    if head.lstrip()[:1] in (b"{", b"["):
        if head.lstrip()[1:].lstrip()[:1] == b"[":
            raw = read_raw(path)
            return [raw] if raw else []
        return _profiler_trace(path)
    return []


def _profiler_trace(path: Path) -> list[MemoryTimeline]:
    """Read a trace. If it does not state its only rank, its file name may."""
    rank = rank_of_trace(path)
    found = from_trace(read_trace(path))
    return [replace(item, rank=rank) if item.rank is None else item for item in found]


def _snapshot(path: Path) -> list[MemoryTimeline]:
    try:
        return read_snapshot(path)
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # a damaged pickle may raise any exception
        raise pickle.UnpicklingError(
            _("the snapshot is damaged ({name})", name=type(error).__name__)
        ) from error


def _head(path: Path) -> bytes:
    try:
        with lines.open_any(path) as file:
            return file.read(4096)
    except OSError:
        return b""
