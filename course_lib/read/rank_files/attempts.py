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
    marks: list[tuple[str, float]] = []
    useful: dict[int, float] = {}
    other_s = {"starting": 0.0, "saving": 0.0, "repeated": 0.0}
    repeated, before_s, gap = 0, 0.0, "starting"
    for line in text.splitlines():
        if found := _ATTEMPT.match(line):
            marks.append((found[2], float(found[3])))
            before_s, gap = marks[-1][1], "starting"
        elif found := _STEP.search(line):
            try:
                at_s, took_s = datetime.fromisoformat(found[1]).timestamp(), float(found[3]) / 1e3
            except ValueError:  # a damaged line
                continue
            other_s[gap] += max(0.0, at_s - before_s - took_s)
            before_s, gap = at_s, "saving"
            if int(found[2]) in useful:
                repeated += 1
                other_s["repeated"] += took_s
            else:
                useful[int(found[2])] = took_s
    begins = [at_s for what, at_s in marks if what == "begins"]
    ends = [at_s for what, at_s in marks if what != "begins"]
    return Attempts(
        count=len(begins),
        finished=any("done" in what for what, _ in marks),
        total_s=ends[-1] - begins[0] if begins and ends else 0.0,
        useful_s=sum(useful.values()),
        repeated_s=other_s["repeated"],
        starting_s=other_s["starting"],
        saving_s=other_s["saving"],
        iterations=len(useful),
        repeated=repeated,
    )
