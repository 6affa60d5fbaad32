"""The command `course`."""

from __future__ import annotations


def main() -> int:
    raise SystemExit("course: no command is written yet")
