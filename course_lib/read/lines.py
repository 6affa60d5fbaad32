"""Bytes in, blocks of whole lines out: one pass, bounded memory, files that still grow."""

from __future__ import annotations

import codecs
import gzip
import io
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

BLOCK_BYTES = 1 << 20
LONGEST_LINE_BYTES = 4 << 20
"""A longer line is cut here: a file without any newline must not fill the memory."""

MOST_UNPACKED_BYTES = 8 << 30
GZIP_MAGIC = b"\x1f\x8b"


BYTE_ORDER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def is_plain(path: Path) -> bool:
    """Its bytes are those of its lines: neither packed, nor UTF-16, as of a Windows shell."""
    with path.open("rb") as file:
        return file.read(2) not in (GZIP_MAGIC, *BYTE_ORDER_MARKS)


def open_any(path: Path) -> BinaryIO:
    """Opens plain, gzip or UTF-16 by the first bytes, whatever its name says."""
    file: io.BufferedReader = path.open("rb")
    if file.peek(2)[:2] == GZIP_MAGIC:
        file.close()
        file = io.BufferedReader(Unpacked(path), BLOCK_BYTES)
    if _begins_with_mark(file):
        file = io.BufferedReader(AsUtf8(file), BLOCK_BYTES)
    return cast(BinaryIO, file)


def _begins_with_mark(file: io.BufferedReader) -> bool:
    try:
        return file.peek(2)[:2] in BYTE_ORDER_MARKS
    except (EOFError, OSError, zlib.error):  # damaged: whoever reads will see
        return False


class AsUtf8(io.RawIOBase):
    """UTF-16, which `>` of a Windows shell writes."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-16")("replace")
        self._made = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b"."
        while not self._made and data:
            data = self._file.read(BLOCK_BYTES)
            self._made = self._decoder.decode(data, not data).encode()
        part, self._made = self._made[: len(buffer)], self._made[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._file.close()
        super().close()


class Unpacked(io.RawIOBase):
    """A gzip file up to a bound: a few megabytes may hold gigabytes of nothing. What lies beyond it
    is told by a warning."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = gzip.open(path, "rb")  # noqa: SIM115  closed with this
        self._left = MOST_UNPACKED_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(max(0, min(len(buffer), self._left)))
        self._left -= len(data)
        buffer[: len(data)] = data
        if not data and len(buffer) and not self._left and self._file.read(1):
            warnings.warn(
                f"{self.path}: read up to {MOST_UNPACKED_BYTES / 2**30:g} GiB of what it unpacks "
                "to, and no further",
                stacklevel=2,
            )
            self._left = -1
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


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
        if last_bytes is not None and is_plain(path):
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


def json_rows(path: Path, last_bytes: int | None = None) -> Iterator[Any]:
    """One decoded line after the other; what is no JSON is passed over."""
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
    """Follows a growing file: each `poll` gives the bytes that were added since the last one."""

    def __init__(self, path: Path | str) -> None:
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
