"""The file of recorded runs: read as if an enemy had written it.

    course-recording-1 <sha256 of the next line>
    {"machine": …, "runs": [{"recipe": …, "files": [[path, bytes, sha256], …]}, …]}
    <all files one after the other, as xz>

It is data: nothing in it is run, imported or unpickled. A file that is not whole, or holds what no
recording holds, is refused in words, and nothing of it is written.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

import msgspec

from course_lib.lab.errors import LabError
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.run_paths import folder_name
from course_lib.lab.job.site import Site
from course_lib.lab.plain_files import plain
from course_lib.lab.queue.states import ENDED

FORMAT = "course-recording-1"
ENDING = ".runs"
LARGEST_FILE_BYTES = 16 << 20
LARGEST_HEAD_BYTES = 4 << 20
LARGEST_BODY_BYTES = 512 << 20
"""Of all files together, unpacked."""
LARGEST_PART_BYTES = 64 << 20
"""Of one file, unpacked: so much may be in memory at once."""
MOST_FILES = 5000
UNPACKING_MEMORY_BYTES = 128 << 20
PIECE_BYTES = 1 << 20
ALONE = ("recipe.toml", "job.sbatch", "out.log", "exit_code", "links.json")
IN_FOLDERS = (
    *("program", "verdict", "tensorboard", "profile", "memory", "monitor"),
    *("diary", "stacks", "flight"),
)
CHECKPOINTS, TOLD_BY_CHECKPOINTS = "checkpoints", (".json", ".txt", ".lock")
"""Their names and what they say of themselves; weights are large, and pickled."""
INDEXED = (".idx", ".bin")
"""A text that a run has made into tokens."""
PART = re.compile(r"[\w+-][\w.+-]{0,150}", re.ASCII)
PACKED_ONCE = ".gz"
"""Such files lie in a recording as what is in them, which xz packs better, and become .gz again."""
PICKLED = (".pickle", ".pkl", ".pt", ".pth")


class RecordingError(LabError):
    """A file of recorded runs that is damaged, or is none."""


class RecordedFile(msgspec.Struct, array_like=True, frozen=True):
    path: str
    size_bytes: int
    sha256: str


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    job_id: int
    submitted_unix_s: float
    status: dict[str, Any]
    recipe: dict[str, Any]
    site: dict[str, Any]
    files: list[RecordedFile]
    left_out: list[str] = []

    @property
    def folder(self) -> str:
        return folder_name(self.name, self.job_id)


class Head(msgspec.Struct, frozen=True, kw_only=True):
    machine: str
    date: str
    device_pace: float
    runs: list[RecordedRun]


class Recording:
    """`head` is checked when this is made, the files when they are unpacked."""

    def __init__(self, path: Path):
        self.path = path
        with self._opened() as file:
            self.head = _head(path, file)
            self._body_starts = file.tell()
        for run in self.head.runs:
            _check_run(path, run)
        sizes = [file.size_bytes for run in self.head.runs for file in run.files]
        if len(sizes) > MOST_FILES or sum(sizes) > LARGEST_BODY_BYTES:
            raise _refused(path, f"it would unpack to {len(sizes)} files of {sum(sizes)} bytes")

    def unpack(self, wanted: RecordedRun, folder: Path) -> None:
        """The files of one run into a new folder, each compared with its checksum."""
        with self._opened() as file:
            file.seek(self._body_starts)
            body = _Body(self.path, file)
            for run in self.head.runs:
                for entry in run.files:
                    content = body.next(entry)
                    if run == wanted:
                        _write(folder / entry.path, content)
                if run == wanted:
                    return

    def check(self) -> None:
        """Every byte, to its end."""
        with self._opened() as file:
            file.seek(self._body_starts)
            body = _Body(self.path, file)
            for run in self.head.runs:
                for entry in run.files:
                    body.next(entry)
            body.has_ended()

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        try:
            size = plain(self.path).stat().st_size
            if size > LARGEST_FILE_BYTES:
                raise _refused(self.path, f"it has {size} bytes, a recording at most 16 MiB")
            with self.path.open("rb") as file:
                yield file
        except OSError as error:
            raise _refused(self.path, error.strerror or str(error)) from error


def _head(path: Path, file: IO[bytes]) -> Head:
    name, _, told = file.readline(200).decode("ascii", "replace").strip().partition(" ")
    if name != FORMAT:
        raise _refused(path, f"it does not begin with {FORMAT!r}")
    line = file.readline(LARGEST_HEAD_BYTES)
    if not line.endswith(b"\n") or hashlib.sha256(line).hexdigest() != told:
        raise _refused(path, "its table of contents is damaged, cut off or too long")
    try:
        return msgspec.json.decode(line, type=Head)
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"its table of contents is none: {error}") from error


def _check_run(path: Path, run: RecordedRun) -> None:
    try:
        recipe = Recipe.from_dict(run.recipe)
        Site(**{"name": "recorded", **run.site})
    except (LabError, TypeError, ValueError, AttributeError) as error:
        raise _refused(path, f"recipe or site of a run: {error}") from error
    if recipe.name != run.name or not PART.fullmatch(run.folder) or run.job_id < 0:
        raise _refused(path, f"a run has the name {run.name[:80]!r}")
    if run.status.get("state") not in ENDED:
        raise _refused(path, f"{run.folder} had not ended")
    names = [file.path for file in run.files]
    for name in names:
        if not may_be_recorded(name):
            raise _refused(path, f"{name[:80]!r} is no file of a run")
    if len(set(names)) < len(names):
        raise _refused(path, f"the files of {run.folder} are not told apart")
    if not all(0 <= file.size_bytes <= LARGEST_PART_BYTES for file in run.files):
        raise _refused(path, f"a file of {run.folder} would have more than 64 MiB")


def may_be_recorded(name: str) -> bool:
    """Names below the folder of a run, of the kinds that the course reads as data."""
    parts = name.split("/")
    if not all(PART.fullmatch(part) for part in parts) or PurePosixPath(name).suffix in PICKLED:
        return False
    suffix = PurePosixPath(name).suffix
    if len(parts) == 1:
        return name in ALONE or suffix in INDEXED
    told = parts[0] == CHECKPOINTS and suffix in TOLD_BY_CHECKPOINTS
    return (parts[0] in IN_FOLDERS or told) and len(parts) <= 5


def _write(target: Path, content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    packed = target.suffix == PACKED_ONCE
    target.write_bytes(gzip.compress(content, 1) if packed else content)


class _Body:
    """The files in their order; never more in memory than the one that is read."""

    def __init__(self, path: Path, file: IO[bytes]):
        self._path, self._file = path, file
        memory = UNPACKING_MEMORY_BYTES
        self._xz = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=memory)

    def next(self, entry: RecordedFile) -> bytes:
        content = bytearray()
        while len(content) < entry.size_bytes:
            if not (piece := self._read(entry.size_bytes - len(content))):
                raise _refused(self._path, f"it ends within {entry.path}")
            content += piece
        if hashlib.sha256(content).hexdigest() != entry.sha256:
            raise _refused(self._path, f"{entry.path} is not what was recorded (its checksum)")
        return bytes(content)

    def has_ended(self) -> None:
        if self._read(1) or self._file.read(1):
            raise _refused(self._path, "there is more in it than its table of contents tells")

    def _read(self, most: int) -> bytes:
        while not self._xz.eof:
            more = self._file.read(PIECE_BYTES) if self._xz.needs_input else b""
            if self._xz.needs_input and not more:
                return b""
            try:
                piece = self._xz.decompress(more, max_length=min(most, PIECE_BYTES))
            except lzma.LZMAError as error:
                raise _refused(self._path, f"it is damaged: {error}") from error
            if piece:
                return piece
        return b""


def _refused(path: Path, why: str) -> RecordingError:
    return RecordingError(f"{path.name} is no recording that can be used: {why}")
