"""The tables that torchrun prints at the end, one on each node: who failed there, and how."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from course_lib.read import prefix

_ROW = re.compile(
    rb"host +: (\S{1,100})\s{0,4}\n[^\n]{0,60}?rank +: (\d{1,7}) \(local_rank: (\d{1,5})\)"
    rb"[^\n]{0,60}\n[^\n]{0,200}?exitcode +: (-?\d{1,5})"
)
_ROOT_CAUSE = {
    "time": re.compile(rb"time +: (\S{1,40})"),
    "host": re.compile(rb"host +: (\S{1,100})"),
    "rank": re.compile(rb"rank +: (\d{1,7})"),
    "exitcode": re.compile(rb"exitcode +: (-?\d{1,5})"),
}
_SIGNALS = {"killed": (-9,), "crashed": (-11, -7, -8, -4)}
_TABLE_BYTES = 3000


@dataclass
class LauncherTables:
    """`roots`: what each table calls the root cause."""

    roots: list[dict[str, str]] = field(default_factory=list)
    exit_codes: dict[int, int] = field(default_factory=dict)
    hosts: dict[int, str] = field(default_factory=dict)

    @property
    def root(self) -> dict[str, str]:
        """The earliest."""
        return min(self.roots, key=lambda root: root.get("time", "~"), default={})

    def first_rank(self, cause: str) -> int | None:
        """The root cause's; of who was killed or crashed, the first that ended by a signal."""
        signalled = _SIGNALS.get(cause, ())
        rank = self.root.get("rank", "")
        known = int(rank) if rank.isdecimal() else None
        if not signalled or known is None or self.exit_codes.get(known) in signalled:
            return known
        return next((r for r, code in self.exit_codes.items() if code in signalled), known)

    def like(self, rank: int) -> set[int]:
        """Who ended in the same way."""
        code = self.exit_codes.get(rank)
        return {other for other, its in self.exit_codes.items() if its == code}

    def exit_code(self, rank: int | None) -> int | None:
        """Of a rank, or of the root cause where none is known."""
        if rank is not None:
            return self.exit_codes.get(rank)
        code = self.root.get("exitcode")
        return None if code is None else int(code)

    def read(self, text: bytes, begin: int, end: int) -> None:
        """`end`: of the line above the root cause, which comes last; the other rows lie behind
        `begin`."""
        for row in _ROW.finditer(text, begin, end + _TABLE_BYTES):
            rank, local_rank = int(row[2]), int(row[3])
            self.exit_codes[rank] = int(row[4])
            for other in range(max(0, rank - local_rank), rank + 1):
                self.hosts[other] = row[1].decode("utf-8", "replace")
        table = prefix.without_colours(text[end : end + _TABLE_BYTES])
        found = {name: pattern.search(table) for name, pattern in _ROOT_CAUSE.items()}
        root = {name: m[1].decode("utf-8", "replace") for name, m in found.items() if m}
        if root:
            self.roots.append(root)
