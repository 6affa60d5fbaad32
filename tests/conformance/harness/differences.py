"""The table of known differences, and the comparison of two transcripts that respects it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from difflib import SequenceMatcher

from harness.cases import HERE

TABLE = HERE / "differences.toml"


@dataclass(frozen=True)
class Change:
    """Lines of the real Slurm, and different lines of the box; either list may be empty."""

    slurm: tuple[str, ...]
    box: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([*(f"slurm: {line}" for line in self.slurm),
                          *(f"box  : {line}" for line in self.box)])  # fmt: skip


@dataclass(frozen=True)
class Difference:
    change: Change
    cases: tuple[str, ...]
    reason: str


def read_table() -> list[Difference]:
    if not TABLE.exists():
        return []
    entries = tomllib.loads(TABLE.read_text(encoding="utf-8")).get("difference", [])
    return [
        Difference(
            Change(
                tuple(entry["slurm"].splitlines()),
                tuple(entry["box"].splitlines()),
            ),
            tuple(entry["cases"]),
            entry["reason"],
        )
        for entry in entries
    ]


def changes(slurm: str, box: str) -> list[Change]:
    ours, theirs = box.rstrip().splitlines(), slurm.rstrip().splitlines()
    return [
        Change(tuple(theirs[a:b]), tuple(ours[c:d]))
        for kind, a, b, c, d in SequenceMatcher(None, theirs, ours, autojunk=False).get_opcodes()
        if kind != "equal"
    ]


def judge(case: str, slurm: str, box: str) -> tuple[list[Change], list[Difference]]:
    """Return changes that the table does not list, and outdated entries of the table."""
    listed = [difference for difference in read_table() if case in difference.cases]
    found = changes(slurm, box)
    unknown = [change for change in found if change not in [entry.change for entry in listed]]
    stale = [entry for entry in listed if entry.change not in found]
    return unknown, stale
