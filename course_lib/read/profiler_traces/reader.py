"""`read.profile`: the traces of one or many ranks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from course_lib.read import lines
from course_lib.read.lines import PathLike
from course_lib.read.profiler_traces.result import Profile, Worker
from course_lib.read.profiler_traces.step_times import kinds_of, steps_of
from course_lib.read.profiler_traces.trace_file import Trace, read_trace

_RANK = re.compile(r"(?:^|[^a-z])rank[-_]?(\d{1,7})", re.IGNORECASE)


def profile(path: PathLike | Iterable[PathLike]) -> Profile:
    """Reads a trace, several, a folder of them, or the `profile` folder of a run."""
    parts: list[Worker] = []
    notes: list[str] = []
    for file in files_of(path):
        trace = read_trace(file)
        if not len(trace.start_us):
            notes.append(f"{file}: no events in it")
            continue
        parts.append(_worker(trace, len(parts)))
    parts.sort(key=lambda part: (part.rank, part.name))
    return Profile(tuple(parts), tuple(notes))


def files_of(path: PathLike | Iterable[PathLike]) -> list[Path]:
    given = [path] if isinstance(path, str | Path) else list(path)
    found: list[Path] = []
    for item in map(Path, given):
        if item.is_dir():
            folder = item / "profile" if (item / "profile").is_dir() else item
            files = [
                file
                for file in folder.rglob("*")
                if file.name.endswith((".json", ".json.gz")) and file.name != "links.json"
            ]
            found += sorted(files, key=lambda file: lines.natural(str(file)))
        elif item.exists():
            found.append(item)
        else:
            raise FileNotFoundError(f"no profiler trace at {item}; give a trace or a run folder")
    return found


def _worker(trace: Trace, number: int) -> Worker:
    """The rank is what the trace says, else what its name says, else its place."""
    named = _RANK.search(trace.path.name)
    rank = trace.rank if trace.rank is not None else int(named[1]) if named else number
    name = re.sub(r"(\.pt)?(\.trace)?\.json(\.gz)?$", "", trace.path.name)
    kinds = kinds_of(trace)
    return Worker(name, rank, trace, kinds, steps_of(trace, kinds))
