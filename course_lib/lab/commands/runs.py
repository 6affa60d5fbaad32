"""`course runs`: what was run in this workspace."""

from __future__ import annotations

from course_lib.lab.commands.common import parser
from course_lib.lab.lab import Lab
from course_lib.lab.runs.tables import RUN_COLUMNS, plain


def main(argv: list[str]) -> int:
    options = parser("runs", "Lists the runs of this workspace, the newest first.")
    options.add_argument("-n", "--last", type=int, default=0, help="only so many")
    given = options.parse_args(argv)
    rows = Lab(quiet=True).run_rows()
    print(plain(RUN_COLUMNS, rows[: given.last or None]) if rows else "no runs yet")
    return 0
