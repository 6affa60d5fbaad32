"""Standard output of a watched program, which records whole lines."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

MOST_LINES, LONGEST_LINE = 60, 200


class Lines(io.TextIOBase):
    """Output stream that passes each line to `note`, up to a limit."""

    def __init__(self, note: Callable[..., object], under: Any) -> None:
        self.note, self.under, self.begun, self.count = note, under, "", 0
        self.are_shown = True

    def write(self, text: str) -> int:
        *lines, self.begun = (self.begun + text).split("\n")
        for line in lines:
            self.count += 1
            if self.count <= MOST_LINES:
                self.note("line", text=line[:LONGEST_LINE])
        self.begun = self.begun[-LONGEST_LINE:]
        return int(self.under.write(text)) if self.are_shown else len(text)

    def flush(self) -> None:
        self.under.flush()

    def fileno(self) -> int:
        return int(self.under.fileno())
