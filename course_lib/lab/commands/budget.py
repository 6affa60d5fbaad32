"""`course budget`: device-hours spent, and how many may be."""

from __future__ import annotations

from course_lib.lab.commands.common import parser
from course_lib.lab.lab import Lab


def main(argv: list[str]) -> int:
    options = parser("budget", "Shows the device-hours of this workspace, or sets their limit.")
    options.add_argument("hours", nargs="?", help='a number, or "none" to lift the limit')
    given = options.parse_args(argv)
    lab = Lab(quiet=True)
    if given.hours:
        try:
            limit = None if given.hours == "none" else float(given.hours)
        except ValueError:
            options.error(f'{given.hours!r} is no number of device-hours; use 20 or "none"')
        lab.set_budget(limit)
    print(lab.budget.words)
    return 0
