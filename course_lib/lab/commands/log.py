"""`course log`: what a run printed."""

from __future__ import annotations

import sys

from course_lib.lab.commands.common import parser, which
from course_lib.lab.lab import Lab
from course_lib.lab.queue.states import UNKNOWN
from course_lib.lab.runs.run import Run

GLANCE_S = 0.3


def main(argv: list[str]) -> int:
    options = parser("log", "Prints the log of a run; exit code 1 if the run ended badly.")
    options.add_argument("run", help="name or job id")
    options.add_argument("-n", "--lines", type=int, default=0, help="only the last so many lines")
    options.add_argument("-f", "--follow", action="store_true", help="go on until the run ends")
    given = options.parse_args(argv)
    run = Lab(quiet=True).run(which(given.run))
    if given.follow:
        return follow(run, given.lines)
    print(run.tail(given.lines) if given.lines else run.text.removesuffix("\n"))
    return 0 if not run.ended or run.ok else 1


def follow(run: Run, lines: int) -> int:
    """Prints what is there and what comes, then one line that says how it ended."""
    if lines:
        print(run.tail(lines))
    position = run.log_file.stat().st_size if lines and run.log_file.exists() else 0
    while True:
        is_over = run.ended or run.state == UNKNOWN
        position = _copy(run, position)
        if is_over:
            print(f"{run.name}: {run.reason}", file=sys.stderr)
            return 0 if run.ok else 1
        run.pause(GLANCE_S)


def _copy(run: Run, position: int) -> int:
    if not run.log_file.exists():
        return position
    with run.log_file.open("rb") as file:
        file.seek(position)
        while chunk := file.read(1 << 16):
            sys.stdout.write(chunk.decode("utf-8", "replace"))
        sys.stdout.flush()
        return file.tell()
