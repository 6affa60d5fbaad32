"""A plain file cut into pieces of whole lines, any of which can be read on its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from course_lib.read.lines import LONGEST_LINE_BYTES


class Piece:
    """Its text is there, or read when it is asked for."""

    def __init__(self, text: bytes | Callable[[], bytes]) -> None:
        self._text = text

    @cached_property
    def text(self) -> bytes:
        return self._text if isinstance(self._text, bytes) else self._text()


class Pieces:
    """As long as the file is now; a piece begins with the first line that begins in it."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self._file = path.open("rb")
        self._size_bytes = size_bytes
        self._end = path.stat().st_size

    def __len__(self) -> int:
        return (self._end + self._size_bytes - 1) // self._size_bytes

    def read(self, number: int) -> bytes:
        start, end = self._start(number), self._start(number + 1)
        self._file.seek(start)
        return self._file.read(max(0, end - start))

    def _start(self, number: int) -> int:
        offset = number * self._size_bytes
        if not 0 < offset < self._end:
            return min(offset, self._end)
        self._file.seek(offset - 1)
        self._file.readline(LONGEST_LINE_BYTES)
        return min(self._file.tell(), self._end)

    def close(self) -> None:
        self._file.close()
