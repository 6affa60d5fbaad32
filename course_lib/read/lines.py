"""Bytes in, blocks of whole lines out: one pass, bounded memory, files that still grow."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

BLOCK_BYTES = 1 << 20
LONGEST_LINE_BYTES = 4 << 20
"""A longer line is cut here: a file without any newline must not fill the memory."""

PathLike = str | Path
GZIP_MAGIC = b"\x1f\x8b"
_LOG_SUFFIXES = {".log", ".out", ".err", ".txt", ".stdout", ".stderr", ".o", ".e", ""}
_RANK_OF_NAME = (
    re.compile(r"attempt_\d+/(\d+)/std(?:out|err)"),
    re.compile(r"(?i)(?:^|[^a-z])(?:rank|task|worker|trainer)[-_.]?(\d+)(?=[^/\d]*$)"),
    re.compile(r"(?:^|/)(\d+)\.(?:log|out|err|txt)(?:\.gz)?$"),
)


@dataclass(frozen=True)
class Source:
    """One file of a run, and what its name says about who wrote it."""

    path: Path
    rank: int | None = None

    @property
    def name(self) -> str:
        return str(self.path)

    @staticmethod
    def unnamed() -> Source:
        """For bytes that come from no file."""
        return Source(Path())


def sources(paths: PathLike | Iterable[PathLike]) -> list[Source]:
    """The log files meant by a file, a folder or several of them, in natural order."""
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    found: list[Source] = []
    for item in map(Path, given):
        if item.is_dir():
            found += [Source(path, _rank_of(path, item)) for path in _files_of(item)]
        elif item.exists():
            found.append(Source(item, _rank_of(item, item.parent) if len(given) > 1 else None))
        else:
            raise FileNotFoundError(f"no log at {item}; give a log file, a folder of them or a run")
    return found


def _files_of(folder: Path) -> list[Path]:
    """A run folder has its `out.log`; any other folder is taken as one file per rank or node."""
    if (folder / "out.log").is_file():
        return [folder / "out.log"]
    files = [path for path in folder.rglob("*") if path.is_file() and _is_log(path)]
    return sorted(files, key=lambda path: natural(str(path.relative_to(folder))))


def _is_log(path: Path) -> bool:
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    return suffix in _LOG_SUFFIXES or suffix[1:].isdigit() or suffix[:2] in (".o", ".e")


def natural(text: str) -> list[tuple[int, int, str]]:
    """Sort key under which `rank10` follows `rank9`."""
    parts = re.findall(r"\d{1,18}|\D+", text)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def _rank_of(path: Path, folder: Path) -> int | None:
    text = path.relative_to(folder).as_posix()
    for pattern in _RANK_OF_NAME:
        if match := pattern.search(text):
            return int(match[1][:9])
    return None


def is_gzip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == GZIP_MAGIC


def open_any(path: Path) -> BinaryIO:
    """Opens plain or gzip by its first bytes, whatever its name says."""
    return cast(BinaryIO, gzip.open(path, "rb")) if is_gzip(path) else path.open("rb")


class LineBuffer:
    """Cuts a stream of bytes into blocks that end with a newline; keeps the half line."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Whole lines only; what follows the last newline waits for the next call."""
        data = self._rest + data if self._rest else data
        cut = data.rfind(b"\n") + 1
        if not cut and len(data) > LONGEST_LINE_BYTES:
            self._rest = b""
            return data + b"\n"
        self._rest = data[cut:]
        return data[:cut]

    @property
    def waiting(self) -> bool:
        return bool(self._rest)

    def rest(self) -> bytes:
        """The half line at the end, if any; it is forgotten afterwards."""
        rest, self._rest = self._rest, b""
        return rest


def blocks(
    path: Path, size_bytes: int = BLOCK_BYTES, last_bytes: int | None = None
) -> Iterator[bytes]:
    """Blocks of whole lines; only the last one may lack its newline. `last_bytes`: only about so
    many at the end of a plain file."""
    with open_any(path) as file:
        if last_bytes is not None and not is_gzip(path):
            file.seek(max(0, path.stat().st_size - last_bytes))
            if file.tell():
                file.readline(LONGEST_LINE_BYTES)
        while True:
            try:
                block = file.read(size_bytes)
                if block and not block.endswith(b"\n"):
                    block += file.readline(LONGEST_LINE_BYTES)
            except (EOFError, OSError, zlib.error):
                return
            if not block:
                return
            yield block


class Tail:
    """Follows a growing file: each `poll` gives the bytes that were added since the last one."""

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        self._offset = 0

    def poll(self) -> Iterator[bytes]:
        """Nothing for a file that is not there yet; starts again if it was truncated."""
        try:
            file = self.path.open("rb")
        except OSError:
            return
        with file:
            if file.seek(0, 2) < self._offset:
                self._offset = 0
            file.seek(self._offset)
            while data := file.read(BLOCK_BYTES):
                self._offset += len(data)
                yield data
