"""`course clean`: deletes runs that the course made."""

from __future__ import annotations

from course_lib.lab.commands.common import parser, which
from course_lib.lab.lab import Lab


def main(argv: list[str]) -> int:
    options = parser(
        "clean",
        "Shows which runs of this workspace would be deleted, and deletes them with --yes. Only\n"
        "what the course made is touched; without names, all runs that have ended.",
    )
    options.add_argument("run", nargs="*", help="name or job id")
    options.add_argument("--only", action="append", default=[], metavar="PART",
                         help="only this part of the runs, such as checkpoints")  # fmt: skip
    options.add_argument("--yes", action="store_true", help="delete")
    given = options.parse_args(argv)
    lab = Lab(quiet=True)
    print(lab.clean(*(which(word) for word in given.run), only=given.only, yes=given.yes))
    return 0
