"""The file of recorded runs: a tar.xz that is read as untrusted data.

    manifest.json                 {"machine": …, "runs": [{"recipe": …, "files": […], …}, …]}
    dp4-17/recipe.toml            and all other files, as the manifest lists them, in its order

Nothing in it is run, imported or unpickled. An incomplete file, or a file with content that its
manifest does not list, is refused with a message.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

import msgspec

from course_lib.lab.errors import LabError
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.site import Site
from course_lib.lab.queue.slurm import ENDED, Status
from course_lib.lab.workspace import folder_name, plain
from course_lib.words import _

ENDING = ".runs"
MANIFEST = "manifest.json"
LARGEST_FILE_BYTES = 16 << 20
# Limit for all unpacked files together.
LARGEST_BODY_BYTES = 256 << 20
# Limit for one unpacked file, because one file at a time is held in memory.
LARGEST_PART_BYTES = 64 << 20
MOST_FILES = 5000
ALONE = ("recipe.toml", "job.sbatch", "out.log", "exit_code", "links.json")
IN_FOLDERS = (
    *("program", "verdict", "tensorboard", "profile", "memory", "monitor"),
    *("diary", "stacks", "flight"),
)
# Checkpoints: only their small text files are recorded, because weights are large.
CHECKPOINTS, CHECKPOINT_TEXTS = "checkpoints", (".json", ".txt", ".lock")
# A text that a run has converted to tokens.
INDEXED = (".idx", ".bin")
PART = re.compile(r"[\w+-][\w.+-]{0,150}", re.ASCII)
# These files are stored unzipped, because xz packs them better. Unpacking makes them .gz again.
ZIPPED = ".gz"
# Files that are code, or that run code when they are read.
EXECUTABLE = (".pyc", ".pickle", ".pkl", ".pt", ".pth")


class RecordingError(LabError):
    """A file of recorded runs that is damaged or has a wrong format."""


class RecordedFile(msgspec.Struct, array_like=True, frozen=True):
    path: str
    size_bytes: int
    sha256: str


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    job_id: int
    submitted_unix_s: float
    status: Status
    recipe: dict[str, Any]
    site: dict[str, Any]
    files: list[RecordedFile] = []
    left_out: list[str] = []

    @property
    def folder(self) -> str:
        return folder_name(self.name, self.job_id)


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    machine: str
    date: str
    device_pace: float
    runs: list[RecordedRun]
    # Output of each Slurm command in the lesson's cells, by the command's line.
    printed: dict[str, str] = {}


class Recording:
    """A file of recorded runs. The constructor checks the manifest; `unpack` checks each file."""

    def __init__(self, path: Path):
        self.path = path
        with self._opened() as archive:
            first = archive.next()
            if first is None or first.name != MANIFEST or not first.isreg():
                raise self._refused(f"it does not begin with {MANIFEST}")
            self.manifest = msgspec.json.decode(_content(archive, first), type=Manifest)
        files = [file for run in self.manifest.runs for file in run.files]
        size = sum(file.size_bytes for file in files)
        if len(files) > MOST_FILES or size > LARGEST_BODY_BYTES:
            raise self._refused(f"it would unpack to {len(files)} files of {size} bytes")
        for run in self.manifest.runs:
            self._check_run(run)

    def unpack(self, wanted: RecordedRun, folder: Path) -> None:
        """Write the files of one run into a new folder and check their checksums."""
        for run, entry, content in self._files():
            if run is wanted:
                target = folder / entry.path
                target.parent.mkdir(parents=True, exist_ok=True)
                zipped = target.suffix == ZIPPED
                target.write_bytes(gzip.compress(content, 1) if zipped else content)

    def check(self) -> None:
        """Read every byte."""
        for _unused in self._files():
            pass

    def _files(self) -> Iterator[tuple[RecordedRun, RecordedFile, bytes]]:
        """Yield all files in order: regular files with names and sizes as in the manifest."""
        with self._opened() as archive:
            archive.next()  # the manifest
            for run in self.manifest.runs:
                for entry in run.files:
                    found, name = archive.next(), f"{run.folder}/{entry.path}"
                    if found is None:
                        raise self._refused(f"it ends before {name}")
                    listed = found.name == name and found.size == entry.size_bytes
                    if not (listed and found.isreg()):
                        raise self._refused(f"{found.name[:80]!r} lies where {name} is listed")
                    content = _content(archive, found)
                    if hashlib.sha256(content).hexdigest() != entry.sha256:
                        raise self._refused(f"{name} is not what was recorded (its checksum)")
                    yield run, entry, content
            if archive.next() is not None or _rest(archive).strip(b"\0"):
                raise self._refused("there is more in it than its manifest lists")

    @contextmanager
    def _opened(self) -> Iterator[tarfile.TarFile]:
        try:
            size = plain(self.path).stat().st_size
            if size > LARGEST_FILE_BYTES:
                raise self._refused(
                    _("it has {size} bytes, and a recording may have at most 16 MiB", size=size)
                )
            with (
                lzma.open(self.path) as file,
                tarfile.open(fileobj=_Limited(file), mode="r|") as archive,  # type: ignore[call-overload]
            ):
                yield archive
        except OSError as error:
            raise self._refused(error.strerror or str(error)) from error
        except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError, RecursionError) as error:
            raise self._refused(str(error)) from error

    def _check_run(self, run: RecordedRun) -> None:
        if run.recipe.get("name") != run.name or not PART.fullmatch(run.folder) or run.job_id < 0:
            raise self._refused(_("a run has the wrong name {name!r}", name=run.name[:80]))
        if run.status.state not in ENDED:
            raise self._refused(_("{folder} had not ended", folder=run.folder))
        for file in run.files:
            if not may_be_recorded(file.path):
                raise self._refused(_("{name!r} is not a file of a run", name=file.path[:80]))
            if not 0 <= file.size_bytes <= LARGEST_PART_BYTES:
                raise self._refused(
                    _("a file of {folder} would have more than 64 MiB", folder=run.folder)
                )
        try:
            Recipe.from_dict(run.recipe)
            Site(**{"name": "recorded", **run.site})
        except (LabError, TypeError, ValueError, AttributeError) as error:
            raise self._refused(f"recipe or site of {run.folder}: {error}") from error

    def _refused(self, why: str) -> RecordingError:
        return RecordingError(
            _("{name} cannot be used as a recording: {why}", name=self.path.name, why=why)
        )


def may_be_recorded(name: str) -> bool:
    """Return True for a path in a run's folder that the course reads as data."""
    parts, suffix = name.split("/"), PurePosixPath(name).suffix
    if not all(map(PART.fullmatch, parts)) or len(parts) > 5 or suffix in EXECUTABLE:
        return False
    if len(parts) == 1:
        return name in ALONE or suffix in INDEXED
    return parts[0] in IN_FOLDERS or (parts[0] == CHECKPOINTS and suffix in CHECKPOINT_TEXTS)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return file.read() if file else b""


def _rest(archive: tarfile.TarFile) -> bytes:
    """Return the bytes after the last file, normally zeros."""
    return b"".join(iter(lambda: archive.fileobj.read(tarfile.RECORDSIZE), b""))


class _Limited:
    """A reader with a size limit, because a small file can unpack to any size."""

    def __init__(self, file: IO[bytes]):
        self._file, self._left = file, LARGEST_BODY_BYTES

    def read(self, size: int) -> bytes:
        piece = self._file.read(size)
        self._left -= len(piece)
        if self._left < 0:
            raise ValueError(f"it unpacks to more than {LARGEST_BODY_BYTES} bytes")
        return piece
