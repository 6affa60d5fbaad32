"""What an examination finds, and how it is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from course_lib.words import told

GOOD, FAIR, BAD = "good", "fair", "bad"
SIGNS = {GOOD: "✓", FAIR: "!", BAD: "✗"}


@dataclass(frozen=True)
class Finding:
    """`fair` is worth knowing and stops nothing; `bad` means that a job would not run."""

    level: str
    what: str
    cure: str = ""


def good(what: str) -> Finding:
    return Finding(GOOD, what)


def fair(what: str, cure: str = "") -> Finding:
    return Finding(FAIR, what, cure)


def bad(what: str, cure: str) -> Finding:
    return Finding(BAD, what, cure)


def report(
    findings: Iterable[Finding], *, quiet: bool = False, well: str = "A job would run."
) -> tuple[str, bool]:
    """Text, and whether a job would run."""
    found = list(findings)
    lines = []
    for finding in found:
        if quiet and finding.level == GOOD:
            continue
        lines.append(f"{SIGNS[finding.level]} {told(finding.what)}")
        if finding.cure:
            lines.append(f"  → {told(finding.cure)}")
    faults = sum(finding.level == BAD for finding in found)
    if faults:
        said = f"{faults} of these stop{'s' if faults == 1 else ''} jobs from running."
        lines.append(f"\n{told(said)}")
    else:
        lines.append(f"{chr(10) if not quiet or lines else ''}{told(well)}")
    return "\n".join(lines), faults == 0
