"""`read.profile`: profiler traces of one or many ranks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from course_lib.read.files import PathLike, found_files, rank_of_trace
from course_lib.read.messages import N_, _
from course_lib.read.profiler_traces.result import Profile
from course_lib.read.profiler_traces.step_times import Worker, kinds_of, steps_of
from course_lib.read.profiler_traces.trace_file import Trace, read_trace


def profile(path: PathLike | Iterable[PathLike]) -> Profile:
    """Read a trace, several, a folder of them, or the `profile` folder of a run."""
    parts: list[Worker] = []
    notes: list[str] = []
    missing = N_("no profiler trace at {path}; give a trace or a run folder")
    for file in found_files(path, ("profile",), _is_trace, missing):
        trace = read_trace(file)
        if not len(trace.start_us):
            notes.append(_("{file}: no events in it", file=file))
            continue
        parts.append(_worker(trace, len(parts)))
    parts.sort(key=lambda part: (part.rank, part.name))
    return Profile(tuple(parts), tuple(notes))


def _is_trace(path: Path) -> bool:
    return path.name.endswith((".json", ".json.gz")) and path.name != "links.json"


def _worker(trace: Trace, number: int) -> Worker:
    """Return a worker with the rank in the trace, else in its file name, else its index."""
    named = rank_of_trace(trace.path)
    rank = next((known for known in (trace.rank, named) if known is not None), number)
    name = re.sub(r"(\.pt)?(\.trace)?\.json(\.gz)?$", "", trace.path.name)
    kinds = kinds_of(trace)
    return Worker(name, rank, trace, kinds, steps_of(trace, kinds))
