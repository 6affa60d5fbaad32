"""Findings of an examination, and their report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from course_lib.lab.errors import LabError
from course_lib.words import N_, _

GOOD, FAIR, BAD = "good", "fair", "bad"
SIGNS = {GOOD: "✓", FAIR: "!", BAD: "✗"}


@dataclass(frozen=True)
class Finding:
    """One finding. `fair` means that jobs still run, `bad` that a job would not run."""

    level: str
    what: str
    cure: str = ""


def good(what: str) -> Finding:
    return Finding(GOOD, what)


def fair(what: str, cure: str = "") -> Finding:
    return Finding(FAIR, what, cure)


def bad(what: str, cure: str) -> Finding:
    return Finding(BAD, what, cure)


def run_checks(*checks: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """Run all checks. A check that raises an error becomes a finding; the next ones still run."""
    findings: list[Finding] = []
    for check in checks:
        try:
            findings += list(check())
        except (LabError, OSError, ValueError) as error:
            findings.append(bad(str(error), ""))
    return findings


def stops_no_job(findings: Iterable[Finding]) -> bool:
    return all(finding.level != BAD for finding in findings)


def report(findings: Iterable[Finding], well: str = N_("A job would run.")) -> tuple[str, bool]:
    """Return the report, and whether a job would run."""
    found = list(findings)
    lines = []
    for finding in found:
        lines.append(f"{SIGNS[finding.level]} {finding.what}")
        if finding.cure:
            lines.append(f"  → {finding.cure}")
    faults = sum(finding.level == BAD for finding in found)
    if faults:
        well = _(
            "{faults} of these stop{s} jobs from running.",
            faults=faults,
            s="s" if faults == 1 else "",
        )
    return "\n".join([*lines, "", well]), faults == 0
