"""`course doctor`: everything that is wrong, at once, each with its cure."""

from __future__ import annotations

from course_lib.lab.commands.common import add_site, parser
from course_lib.lab.doctor.findings import report
from course_lib.lab.errors import LabError


def main(argv: list[str]) -> int:
    options = parser(
        "doctor",
        "Looks at this machine, the site and the cluster, and says what is wrong and what to do.\n"
        "Exit code 0 only if a job would run.",
    )
    options.add_argument("--run", action="store_true", help="also send a small job to two nodes")
    options.add_argument("-q", "--quiet", action="store_true", help="only what is not well")
    add_site(options)
    given = options.parse_args(argv)

    from course_lib.lab.clusters import is_recorded
    from course_lib.lab.doctor.examine import examine

    try:
        findings = examine(given.site, run_a_job=given.run)
    except LabError as error:
        print(f"✗ {error}")
        return 1
    well = "Recorded runs can be read." if is_recorded(given.site) else "A job would run."
    text, is_well = report(findings, quiet=given.quiet, well=well)
    print(text)
    return 0 if is_well else 1
