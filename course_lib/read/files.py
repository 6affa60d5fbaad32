"""Search for the files of a path, folder or list, and facts in their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from course_lib.read.lines import SUFFIXES, is_binary
from course_lib.read.messages import N_, NoSuchFileError, _

PathLike = str | Path
_LOG_SUFFIXES = {".log", ".out", ".err", ".txt", ".stdout", ".stderr", ".o", ".e", ".tar", ""}
_RANK_OF_NAME = (
    re.compile(r"attempt_\d+/(\d+)/std(?:out|err)"),
    re.compile(r"(?i)(?:^|[^a-z])(?:rank|task|worker|trainer)[-_.]?(\d+)(?=[^/\d]*$)"),
    re.compile(r"(?:^|/)(\d+)\.(?:log|out|err|txt)$"),
)


@dataclass(frozen=True)
class Source:
    """File of a run, with the rank that its name states."""

    path: Path
    rank: int | None = None

    @property
    def name(self) -> str:
        return str(self.path)


def sources(paths: PathLike | Iterable[PathLike]) -> list[Source]:
    """Return the log files of a file, a folder or a list of both, in natural order."""
    missing = N_("no log at {path}; give a log file, a folder of log files, or a run")
    given = _given(paths, missing)
    found: list[Source] = []
    for item in given:
        if (item / "out.log").is_file():
            found.append(Source(item / "out.log"))
        elif item.is_dir():
            inside = _inside(item, partial(_is_log, item))
            found += [Source(path, _rank_of(path, item)) for path in inside]
        else:
            found.append(Source(item, _rank_of(item, item.parent) if len(given) > 1 else None))
    return found


def may_be_read(path: Path) -> bool:
    """Tell whether the path is a file or a folder. A pipe or a device may never end."""
    return path.is_file() or path.is_dir()


def _given(paths: PathLike | Iterable[PathLike], missing: str) -> list[Path]:
    """Return the paths as a list. `missing` is the error text for one that cannot be read."""
    given = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    for path in given:
        if not may_be_read(path):
            raise NoSuchFileError(_(missing, path=path))
    return given


def _inside(folder: Path, is_wanted: Callable[[Path], bool]) -> list[Path]:
    """Return the wanted files in natural order; `is_wanted` gets the relative path."""
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    wanted = sorted(filter(is_wanted, files), key=lambda path: natural(str(path)))
    return [folder / path for path in wanted]


def _is_log(folder: Path, path: Path) -> bool:
    suffix = _unpacked(path).suffix
    if not path.suffix:  # a log, or a core dump, a program, a checkpoint
        return not is_binary(folder / path)
    return suffix in _LOG_SUFFIXES or suffix[1:].isdigit() or suffix[:2] in (".o", ".e")


def _unpacked(path: Path) -> Path:
    return path.with_suffix("") if path.suffix in SUFFIXES else path


def natural(text: str) -> list[tuple[int, int, str]]:
    """Return a sort key that puts `rank10` after `rank9`."""
    parts = re.findall(r"\d{1,18}|\D+", text)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def _rank_of(path: Path, folder: Path) -> int | None:
    text = _unpacked(path.relative_to(folder)).as_posix()
    for pattern in _RANK_OF_NAME:
        if match := pattern.search(text):
            return int(match[1][:9])
    return None


_RANK_OF_TRACE = re.compile(r"(?:^|[^a-z])rank[-_]?(\d{1,7})", re.IGNORECASE)


def rank_of_trace(path: Path) -> int | None:
    named = _RANK_OF_TRACE.search(path.name)
    return int(named[1]) if named else None


def found_files(
    paths: PathLike | Iterable[PathLike],
    folders: Iterable[str],
    is_wanted: Callable[[Path], bool],
    missing: str,
) -> list[Path]:
    """Return the given files, and from each folder its wanted files. If a run folder has one of
    `folders`, only the first of them is searched."""
    found: list[Path] = []
    for item in _given(paths, missing):
        folder = next((item / name for name in folders if (item / name).is_dir()), item)
        found += _inside(folder, is_wanted) if item.is_dir() else [item]
    return found
