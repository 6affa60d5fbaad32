"""`course queue`: jobs that have not ended."""

from __future__ import annotations

from course_lib.lab.commands.common import parser
from course_lib.lab.lab import Lab
from course_lib.lab.runs.tables import QUEUE_COLUMNS, plain


def main(argv: list[str]) -> int:
    options = parser("queue", "Lists your jobs that have not ended, and why they wait.")
    options.parse_args(argv)
    rows = Lab(quiet=True).queue_rows()
    print(plain(QUEUE_COLUMNS, rows) if rows else "no jobs in the queue")
    return 0
