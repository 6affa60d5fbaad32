"""`course render`: the batch script of a recipe."""

from __future__ import annotations

from course_lib.lab.commands.common import WHAT, add_site, parser, recipe_of
from course_lib.lab.lab import Lab


def main(argv: list[str]) -> int:
    options = parser("render", "Prints the batch script exactly as it would be submitted.", WHAT)
    options.add_argument("what", nargs="+", help="see below")
    add_site(options)
    given = options.parse_args(argv)
    lab = Lab(site=given.site, quiet=True)
    print(lab.script(recipe_of(given.what, lab)), end="")
    return 0
