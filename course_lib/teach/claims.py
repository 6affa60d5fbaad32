"""Claims of a lesson, tested on the runs of the reader's machine.

A lesson says "the peak falls to less than a third". A cell tagged `claim` tests it:

    claim("recomputation lowers the peak", share, most=33, unit="%")

The cell prints whether the claim holds here. It also adds a line to a file in the workspace, from
which `course run` and the notebook tests print a table. A failed claim stops nothing. The learner
sees that it failed, and the lesson's author corrects the experiment or the claim.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path

from course_lib.lab.workspace import find
from course_lib.mistakes import left_open
from course_lib.mistakes.kinds import is_truth_value
from course_lib.plan.numbers import real
from course_lib.teach import jsonl
from course_lib.words import N_, _, label

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
            return _("is {least}", least=_number(self.least))
        if self.least is None:
            return _("is at most {most}", most=_number(self.most))
        if self.most is None:
            return _("is at least {least}", least=_number(self.least))
        return _(
            "lies between {least} and {most}", least=_number(self.least), most=_number(self.most)
        )

    def __str__(self) -> str:
        value = f"{_short(self.value)}{' ' if self.unit else ''}{label(self.unit)}"
        said = (
            N_("✓ holds here: {text} ({value}; claimed: it {bounds})")
            if self.holds
            else N_("✗ not here: {text} ({value}; claimed: it {bounds})")
        )
        return _(said, text=label(self.text), value=value, bounds=self.bounds)


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
    """Print and record whether `value` lies within the bounds; a bool has to be true."""
    left_open.refuse_outdated()
    if is_truth_value(value):
        value, least, most = int(bool(value)), 1, 1
    if least is None and most is None:
        raise ValueError(
            _("the claim {text!r} has no bound: give least=, most= or both", text=text)
        )
    number = real(value)
    made = Claim(text, math.nan if number is None else number, least, most, unit)
    print(made)
    jsonl.append(find().folder / FILE, asdict(made), _("the claim"))


def kept(workspace: Path, after: int = 0) -> list[Claim]:
    """Return the claims of a workspace after the first `after`; skip broken lines."""
    claims = []
    for entry in jsonl.entries(workspace / FILE):
        try:
            claims.append(Claim(**entry))
        except TypeError:  # valid JSON, but not a claim
            continue
    return claims[after:]


def table(rows: list[tuple[str, Claim]]) -> str:
    """Return a text table with one line per claim and its lesson."""
    width = max([len("lesson"), *(len(lesson) for lesson, _unused in rows)])
    lines = [f"{'lesson':{width}}  holds     value  claim"]
    for lesson, made in rows:
        value = _short(made.value)
        verdict = "yes" if made.holds else "NO"
        unit = f" {made.unit}" if made.unit else ""
        lines.append(f"{lesson:{width}}  {verdict:5}  {value:>8}{unit}  {made.text} {made.bounds}")
    broken = sum(not made.holds for _unused, made in rows)
    return "\n".join(
        [*lines, _("{rows} of {rows2} claims hold", rows=len(rows) - broken, rows2=len(rows))]
    )
