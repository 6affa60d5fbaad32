"""`course submit`: a recipe or a script to the cluster."""

from __future__ import annotations

from course_lib.lab.commands.common import WHAT, add_site, parser, recipe_of
from course_lib.lab.lab import Lab
from course_lib.lab.runs.run import Run


def main(argv: list[str]) -> int:
    options = parser(
        "submit",
        "Submits a recipe. One that has run here already is not submitted again.", WHAT,
    )  # fmt: skip
    options.add_argument("what", nargs="+", help="see below")
    options.add_argument("--again", action="store_true", help="submit it once more all the same")
    options.add_argument(
        "--watch", action="store_true", help="wait for its end; exit code 1 if it ends badly"
    )
    add_site(options)
    given = options.parse_args(argv)
    lab = Lab(site=given.site)
    run = lab.submit(recipe_of(given.what, lab), again=given.again)
    if not given.watch or not isinstance(run, Run):
        return 0
    run.watch()
    if error := run.error:
        print(f"\n{error}")
    return 0 if run.ok else 1
