"""Lines of plain and packed files, recognized by their first bytes.

Files, even growing ones, are read in one pass, in blocks of whole lines, with bounded memory."""

from __future__ import annotations

import codecs
import contextlib
import io
import re
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, cast

from course_lib.read.messages import _

MOST_UNPACKED_BYTES = 8 << 30
HEAD_BYTES = 512
_NEVER_PRINTED = bytes(set(range(1, 32)) - set(b"\a\b\t\n\v\f\r\x1b"))
# Beginning of a packed file, and the module that opens it.
_KINDS = (
    (re.compile(rb"\x1f\x8b"), "gzip"),
    (re.compile(rb"BZh[1-9]1AY&SY"), "bz2"),
    (re.compile(rb"\xfd7zXZ\0"), "lzma"),
)
SUFFIXES = {".gz", ".tgz", ".bz2", ".xz", ".lzma", ".zip", ".tar", ".zst", ".lz4", ".7z", ".Z",
            ".rar", ".br", ".lz"}  # fmt: skip


class UnreadableError(OSError):
    """Error: a file cannot be read, or cannot be read to its end. The text has the reason."""


def kind_of(head: bytes) -> str | None:
    """Return the module that opens a packed file; None for text and other data."""
    return next((module for pattern, module in _KINDS if pattern.match(head)), None)


def is_binary(path: Path) -> bool:
    """Tell whether a file can be opened and is neither text nor packed in a known way."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        return not kind_of(head) and _is_noise(head)
    return False


def _is_noise(head: bytes) -> bool:
    """Tell whether bytes are not UTF-8 and more than 4 % are control characters that no program
    prints. Packed and encrypted bytes have 9 %. Zeros do not count: holes in files are zeros."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
        return False
    except UnicodeDecodeError:
        never = len(head) - len(head.translate(None, _NEVER_PRINTED))
        return 25 * never > len(head)


class Unpacked(io.RawIOBase):
    """Content of a packed file, up to a limit, since a few megabytes can unpack to gigabytes. A
    warning reports further content."""

    def __init__(self, path: Path, module: str) -> None:
        self.path = path
        self._file = import_module(module).open(path, "rb")
        self._error: UnreadableError | None = None
        self._left = MOST_UNPACKED_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._read(min(len(buffer), self._left))
        self._left -= len(data)
        buffer[: len(data)] = data
        if not data and len(buffer) and not self._left and self._read(1):
            warnings.warn(
                f"{self.path}: only the first {MOST_UNPACKED_BYTES / 2**30:g} GiB of its unpacked "
                "content were read",
                stacklevel=2,
            )
            self._left = -1
        return len(data)

    def _read(self, size: int) -> bytes:
        """Read some bytes. An error first ends the stream, so that earlier content is read; every
        further read raises it."""
        if self._error:
            raise self._error
        try:
            return self._file.read1(size) if size > 0 else b""
        except Exception as error:  # each module has its own errors, and damage raises others
            self._error = UnreadableError(_("it is damaged or cut off: {error}", error=error))
            if self._left == MOST_UNPACKED_BYTES:
                raise self._error from error
        return b""

    def close(self) -> None:
        self._file.close()
        super().close()


BLOCK_BYTES = 1 << 20
# A longer line is cut here: a file without any newline must not fill the memory.
LONGEST_LINE_BYTES = 4 << 20


def is_plain(path: Path) -> bool:
    with path.open("rb") as file:
        return not kind_of(file.read(HEAD_BYTES))


def open_any(path: Path) -> BinaryIO:
    """Open a plain or packed file by its first bytes, whatever its name is. Content that cannot be
    unpacked raises an `UnreadableError` at the first read."""
    file: io.BufferedReader = path.open("rb")
    if kind := kind_of(_head(file)):
        file.close()
        file = io.BufferedReader(Unpacked(path, kind), BLOCK_BYTES)
    return cast(BinaryIO, file)


def _head(file: Any) -> bytes:
    try:
        return bytes(file.peek(HEAD_BYTES)[:HEAD_BYTES])
    except UnreadableError:  # the reader will get the same error
        return b""


class LineBuffer:
    """Buffer that cuts a stream of bytes into whole lines and keeps the incomplete one."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Return whole lines; the rest after the last newline waits for the next call."""
        data = self._rest + data if self._rest else data
        cut = data.rfind(b"\n") + 1
        if not cut and len(data) > LONGEST_LINE_BYTES:
            self._rest = b""
            return data + b"\n"
        self._rest = data[cut:]
        return data[:cut]

    def rest(self) -> bytes:
        """Return and clear the incomplete line at the end, if any."""
        rest, self._rest = self._rest, b""
        return rest


def blocks(path: Path, last_bytes: int | None = None) -> Iterator[bytes]:
    """Yield blocks of whole lines; only the last one may lack its newline. With `last_bytes`, read
    only about that many at the end of a plain file. Warn if a file cannot be read to its end."""
    try:
        yield from all_blocks(path, last_bytes)
    except UnreadableError as error:
        warnings.warn(f"{path} was not read to its end: {error}", stacklevel=2)


def all_blocks(path: Path, last_bytes: int | None = None) -> Iterator[bytes]:
    """Yield blocks as `blocks` does, and raise an `UnreadableError` after the readable part."""
    with open_any(path) as file:
        if _is_noise(_head(file)):
            raise UnreadableError(_("it is neither text nor packed in a known format"))
        if last_bytes is not None and is_plain(path):
            file.seek(max(0, path.stat().st_size - last_bytes))
            if file.tell():
                file.readline(LONGEST_LINE_BYTES)
        try:
            while block := file.read(BLOCK_BYTES):
                yield block if block.endswith(b"\n") else block + _rest_of_line(file)
            file.read(1)
        except UnreadableError:
            raise
        except OSError as error:
            raise UnreadableError(str(error)) from error


def _rest_of_line(file: BinaryIO) -> bytes:
    try:
        return file.readline(LONGEST_LINE_BYTES)
    except OSError:  # the next read will raise it
        return b""


def json_rows(path: Path, last_bytes: int | None = None) -> Iterator[Any]:
    """Yield decoded lines; lines that are not JSON are skipped."""
    import msgspec

    decoder = msgspec.json.Decoder()
    for block in blocks(path, last_bytes=last_bytes):
        try:
            yield from decoder.decode(b"[" + block.strip().replace(b"\n", b",") + b"]")
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            for line in block.split(b"\n"):
                try:
                    yield decoder.decode(line)
                except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                    continue


class Tail:
    """Reader of a growing file: each `poll` yields the bytes added since the last `poll`."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._offset = 0

    def poll(self) -> Iterator[bytes]:
        """Yield new bytes, none for a missing file; start again if the file was truncated."""
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
