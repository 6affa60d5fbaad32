"""`read.contents`: what a file of any kind holds, and what in it was not read.

The command `course read` prints it. In a copy without the course, run
`python -m course_lib.read.file_contents FILE`."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib import read
from course_lib.read import lines
from course_lib.read.files import PathLike, may_be_read
from course_lib.read.messages import N_, NoSuchFileError, _
from course_lib.read.prefix import visible

if TYPE_CHECKING:
    import pandas as pd

NOTHING, REFUSED = 1, 2
PICKLE = b"\x80"
STANDARD_INPUT = "-"
_MOST_TEXT, _MOST_NAMES = 200, 12
_GIB = 2**30
# Readers of files that the course's programs write: function, kind, tables.
_RECORDS = (
    ("links", N_("measured links"), ("ranks", "samples")),
    ("monitor", N_("load of nodes"), ("load", "ranks", "devices")),
    ("diary", N_("diary of ranks"), ("table",)),
    ("flight", N_("flight record"), ("table",)),
)
_LOG_TABLES = ("iterations", "repeated", "evaluations", "memory", "parameters", "epochs", "timers",
               "overflows", "notes")  # fmt: skip
_NCCL_TABLES = ("communicators", "ranks", "channels", "rings", "warnings")


@dataclass(frozen=True)
class Part:
    """One kind of content: a sentence about it, and its tables that have rows."""

    kind: str
    text: str
    tables: tuple[tuple[str, pd.DataFrame], ...] = ()

    @staticmethod
    def of(kind: str, text: str, result: Any, names: Sequence[str]) -> Part:
        tables = ((name, getattr(result, name)) for name in names)
        return Part(kind, text, tuple((name, table) for name, table in tables if len(table)))

    def __str__(self) -> str:
        rows = [_("  {name:<14} {rows:>7} rows: {columns}", name=name, rows=len(table),
                  columns=_columns(table)) for name, table in self.tables]  # fmt: skip
        return "\n".join([f"{self.kind}: {self.text}" if self.text else f"{self.kind}:", *rows])


def _columns(table: pd.DataFrame) -> str:
    """Return the names of the columns that hold anything, without the place in the file."""
    names = [str(name) for name in table.columns if table[name].notna().any()]
    names = [name for name in names if name not in ("line", "file")]
    return ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")


@dataclass(frozen=True)
class Contents:
    """Content of a file or folder. `not_read` has a sentence for each part that was not read."""

    parts: tuple[Part, ...]
    not_read: tuple[str, ...] = ()

    def __str__(self) -> str:
        nothing = () if self.parts else (_("Nothing was recognized."),)
        missed = (_("Not read: {what}", what=what) for what in self.not_read)
        return "\n".join([*map(str, self.parts), *nothing, *missed])


def contents(path: PathLike) -> Contents:
    """Read a file of any kind, or a folder, with every reader that may understand it."""
    path = Path(path)
    if not may_be_read(path):
        raise NoSuchFileError(_("{path} does not exist", path=path))
    parts: list[Part] = []
    not_read: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first_byte = b"" if path.is_dir() else _first_byte(path)
        if path.is_dir() or first_byte in (b"{", b"["):
            parts += [*_record_parts(path), *_trace_parts(path)]
        if path.is_dir() or first_byte in (b"{", b"[", PICKLE):
            parts += _memory_parts(path, not_read, is_pickle=first_byte == PICKLE)
        if path.is_dir() or not parts:
            parts += _log_parts(path, not_read)
    not_read += [str(warning.message) for warning in caught]
    return Contents(tuple(parts), tuple(dict.fromkeys(not_read)))


def _first_byte(path: Path) -> bytes:
    """Return the first byte that is not a blank. It distinguishes JSON and pickles from logs."""
    with lines.open_any(path) as file, contextlib.suppress(lines.UnreadableError):
        return file.read(lines.HEAD_BYTES).lstrip()[:1]
    return b""  # the readers of logs say why


def _record_parts(path: Path) -> Iterator[Part]:
    for name, kind, tables in _RECORDS:
        with contextlib.suppress(FileNotFoundError):  # a folder without this record
            part = Part.of(str(kind), "", getattr(read, name)(path), tables)
            if part.tables:
                yield part


def _trace_parts(path: Path) -> Iterator[Part]:
    profile = read.profile(path)
    if profile.parts:
        ranks = ", ".join(map(str, profile.ranks[:_MOST_NAMES]))
        text = _("rank {ranks}; device {device}", ranks=ranks, device=profile.device_kind)
        names = ("step_time", "overlap", "operators", "kernels")
        yield Part.of(_("profiler trace"), text, profile, names)


def _memory_parts(path: Path, not_read: list[str], *, is_pickle: bool) -> Iterator[Part]:
    memory = read.memory(path)
    if len(memory):
        peak = max(timeline.peak_bytes for timeline in memory) / _GIB
        text = _("the highest peak is {peak:.2f} GiB", peak=peak)
        yield Part.of(_("memory over time"), text, memory, ("peaks",))
    elif is_pickle:
        not_read += memory.notes


def _log_parts(path: Path, not_read: list[str]) -> Iterator[Part]:
    log, nccl = read.training_log(path), read.nccl(path)
    if log.is_understood:
        yield Part.of(_("training log"), str(log), log, _LOG_TABLES)
    if nccl.is_understood:
        yield Part.of(_("NCCL log"), str(nccl), nccl, _NCCL_TABLES)
    failure = read.failure(path)
    if failure and failure.cause != "not_readable":
        yield Part(_("failure"), str(failure))
    if len(log.unread):
        first = log.unread.iloc[0]
        not_read.append(
            _("{count} lines with a loss in an unknown form, the first in line {line}: {text}",
              count=len(log.unread), line=first["line"], text=first["text"][:_MOST_TEXT])
        )  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Print the contents of files. Return 1 if nothing was recognized in one of them."""
    options = argparse.ArgumentParser(
        prog="course read",
        description=_(
            "Shows what a file holds: the log of a training program or of NCCL, a profiler trace, "
            "a memory snapshot, measured links. Says what was not read. The exit code is 1 if "
            "nothing was recognized."
        ),
    )
    help_text = _("a file, plain or compressed; a run folder; or - for the standard input")
    options.add_argument("file", nargs="+", help=help_text)
    given = options.parse_args(argv)
    codes = [_print(file, len(given.file) > 1) for file in given.file]
    return max(codes)


@contextlib.contextmanager
def _file_of(given: str) -> Iterator[str]:
    """Yield the name of a file. The readers need a file, so a pipe is copied."""
    is_pipe = Path(given).is_fifo()
    if not is_pipe and given != STANDARD_INPUT:
        yield given
        return
    with tempfile.NamedTemporaryFile() as copy:
        with Path(given).open("rb") if is_pipe else contextlib.nullcontext(sys.stdin.buffer) as it:
            shutil.copyfileobj(it, copy)
        copy.flush()
        yield copy.name


def _print(file: str, with_name: bool) -> int:
    try:
        with _file_of(file) as name:
            found = contents(name)
            text = str(found).replace(name, file)
    except OSError as error:
        why = f"{error.strerror}: {file}" if error.strerror else str(error)
        print(f"course read: {visible(why)}", file=sys.stderr)
        return REFUSED
    print(visible(f"{file}\n{text}\n" if with_name else text))
    return 0 if found.parts else NOTHING


if __name__ == "__main__":
    raise SystemExit(main())
