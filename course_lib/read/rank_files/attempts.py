"""`read.attempts`: times of a job that was restarted repeatedly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from course_lib.read.files import PathLike, sources

LARGEST_BYTES = 64 << 20
_ATTEMPT = re.compile(r"^attempt (\d{1,6}) (begins|ends|has done the work) at (\d{1,12}\.\d{1,12})")
_STEP = re.compile(
    r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,6})\] iteration +(\d{1,9})/.{0,200}?"
    r"elapsed time per iteration \(ms\): ([\d.]{1,20})"
)


@dataclass(frozen=True)
class Attempts:
    """Seconds of the wall clock; the remainder of `total_s` is not attributed."""

    count: int
    finished: bool
    total_s: float
    useful_s: float
    repeated_s: float
    starting_s: float
    saving_s: float
    iterations: int
    repeated: int

    @property
    def useful(self) -> float:
        return self.useful_s / self.total_s if self.total_s else 0.0


def attempts(path: PathLike) -> Attempts:
    """Read the log of a job that prints when each attempt begins and ends (fault.restarts)."""
    with sources([path])[0].path.open("rb") as file:
        text = file.read(LARGEST_BYTES).decode("utf-8", "replace")
    begins: list[float] = []
    ends: list[float] = []
    seen: dict[int, float] = {}
    repeated = starting_s = saving_s = repeated_s = 0.0
    finished, first, before_s = False, True, 0.0
    for line in text.splitlines():
        if found := _ATTEMPT.match(line):
            at_s = float(found[3])
            begins, ends = (
                ([*begins, at_s], ends) if found[2] == "begins" else (begins, [*ends, at_s])
            )
            finished, first = finished or "done" in found[2], True
            before_s = at_s
        elif found := _STEP.search(line):
            at_s, took_s = datetime.fromisoformat(found[1]).timestamp(), float(found[3]) / 1e3
            gap_s = max(0.0, at_s - before_s - took_s)
            starting_s, saving_s = (
                (starting_s + gap_s, saving_s) if first else (starting_s, saving_s + gap_s)
            )
            number = int(found[2])
            if number in seen:
                repeated, repeated_s = repeated + 1, repeated_s + took_s
            else:
                seen[number] = took_s
            first, before_s = False, at_s
    total_s = ends[-1] - begins[0] if begins and ends else 0.0
    return Attempts(
        len(begins), finished, total_s, sum(seen.values()), repeated_s, starting_s, saving_s,
        len(seen), int(repeated),
    )  # fmt: skip
