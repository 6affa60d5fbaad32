"""Search for the files of a path, folder or list, and facts in their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from course_lib.read.lines import SUFFIXES, is_binary
from course_lib.read.messages import NoSuchFileError, _

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

    @staticmethod
    def unnamed() -> Source:
        """Return a source for bytes that come from no file."""
        return Source(Path())


def sources(paths: PathLike | Iterable[PathLike]) -> list[Source]:
    """Return the log files of a file, a folder or a list of both, in natural order."""
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    found: list[Source] = []
    for item in map(Path, given):
        if item.is_dir():
            found += [Source(path, _rank_of(path, item)) for path in _files_of(item)]
        elif item.is_file():  # a pipe may never end
            found.append(Source(item, _rank_of(item, item.parent) if len(given) > 1 else None))
        else:
            raise NoSuchFileError(
                _("no log at {item}; give a log file, a folder of log files, or a run", item=item)
            )
    return found


def _files_of(folder: Path) -> list[Path]:
    """Return `out.log` of a run folder; any other folder has one file per rank or node."""
    if (folder / "out.log").is_file():
        return [folder / "out.log"]
    files = [path for path in folder.rglob("*") if path.is_file() and _is_log(path)]
    return sorted(files, key=lambda path: natural(str(path.relative_to(folder))))


def _is_log(path: Path) -> bool:
    suffix = _unpacked(path).suffix
    if not path.suffix:  # a log, or a core dump, a program, a checkpoint
        return not is_binary(path)
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
    """Return the given files, and from each folder its wanted files (`is_wanted` gets the relative
    path). If a run folder has one of `folders`, only the first of them is searched. `missing` is
    the error text for a path that does not exist."""
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    found: list[Path] = []
    for item in map(Path, given):
        if item.is_dir():
            folder = next((item / name for name in folders if (item / name).is_dir()), item)
            inside = [file.relative_to(folder) for file in folder.rglob("*") if file.is_file()]
            wanted = sorted(filter(is_wanted, inside), key=lambda file: natural(str(file)))
            found += [folder / file for file in wanted]
        elif item.is_file():  # a pipe may never end
            found.append(item)
        else:
            raise NoSuchFileError(_(missing, path=item))
    return found
