"""What a lesson claims, tried on the runs of the machine where it is read.

A lesson says "the peak falls to less than a third"; a cell tagged `claim` says it to the machine:

    claim("recomputation lowers the peak", share, most=33, unit="%")

The cell prints whether it holds here, and one line in the workspace keeps it for `course run` and
for notebooks under test, which print a table of all claims. A claim that fails stops nothing: the
learner sees an honest line, and who writes lessons mends the experiment or the claim.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path

from course_lib.lab.workspace import find
from course_lib.mistakes.kinds import is_truth_value
from course_lib.plan.numbers import real
from course_lib.teach import kept_lines
from course_lib.words import told

FILE = Path(".course") / "claims.jsonl"


@dataclass(frozen=True)
class Claim:
    text: str
    value: float
    least: float | None
    most: float | None
    unit: str

    @property
    def holds(self) -> bool:
        if math.isnan(self.value):
            return False
        above = self.least is None or self.value >= self.least
        return above and (self.most is None or self.value <= self.most)

    @property
    def bounds(self) -> str:
        if self.least == self.most:
            return f"is {_number(self.least)}"
        if self.least is None:
            return f"is at most {_number(self.most)}"
        if self.most is None:
            return f"is at least {_number(self.least)}"
        return f"lies between {_number(self.least)} and {_number(self.most)}"

    def __str__(self) -> str:
        value = f"{_short(self.value)}{' ' if self.unit else ''}{self.unit}"
        if self.holds:
            return f"✓ holds here: {self.text} ({value}; claimed: it {self.bounds})"
        return f"✗ not here: {self.text} ({value}; claimed: it {self.bounds})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def claim(
    text: str,
    value: object,
    *,
    least: float | None = None,
    most: float | None = None,
    unit: str = "",
) -> None:
    """Prints whether `value` lies within the bounds; a truth value is claimed to be true."""
    if is_truth_value(value):
        value, least, most = int(bool(value)), 1, 1
    if least is None and most is None:
        raise ValueError(f"the claim {text!r} has no bound: give least=, most= or both")
    number = real(value)
    made = Claim(text, math.nan if number is None else number, least, most, unit)
    print(told(made))
    kept_lines.append(find().folder / FILE, asdict(made), "the claim")


def kept(workspace: Path, after: int = 0) -> list[Claim]:
    """Those of a workspace, leaving out the first `after`; broken lines are passed over."""
    claims = []
    for entry in kept_lines.entries(workspace / FILE):
        try:
            claims.append(Claim(**entry))
        except TypeError:  # an object, but no claim
            continue
    return claims[after:]


def table(rows: list[tuple[str, Claim]]) -> str:
    """One line per claim, with the lesson that makes it."""
    width = max([len("lesson"), *(len(lesson) for lesson, _ in rows)])
    lines = [f"{'lesson':{width}}  holds     value  claim"]
    for lesson, made in rows:
        value = _short(made.value)
        verdict = "yes" if made.holds else "NO"
        unit = f" {made.unit}" if made.unit else ""
        lines.append(f"{lesson:{width}}  {verdict:5}  {value:>8}{unit}  {made.text} {made.bounds}")
    broken = sum(not made.holds for _, made in rows)
    return "\n".join([*lines, f"{len(rows) - broken} of {len(rows)} claims hold"])
