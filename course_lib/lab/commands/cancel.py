"""`course cancel`: ends runs of this workspace, and no other job."""

from __future__ import annotations

from course_lib.lab.commands.common import parser, which
from course_lib.lab.lab import Lab


def main(argv: list[str]) -> int:
    options = parser("cancel", "Ends runs of this workspace. Other jobs of yours: scancel.")
    options.add_argument("run", nargs="+", help="name or job id")
    given = options.parse_args(argv)
    Lab().cancel([which(word) for word in given.run])
    return 0
