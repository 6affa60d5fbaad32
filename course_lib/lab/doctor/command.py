"""`course doctor`: all problems at once, each with its cure."""

from __future__ import annotations

from collections.abc import Iterator

from course_lib.lab import clusters, workspace
from course_lib.lab.commands.common import add_site, parser
from course_lib.lab.doctor import checks
from course_lib.lab.doctor.findings import Finding, bad, good, report, run_checks, stops_no_job
from course_lib.lab.errors import LabError
from course_lib.lab.recorded.recording_index import RecordingIndex
from course_lib.words import _


def main(argv: list[str]) -> int:
    options = parser(
        "doctor",
        _(
            "Checks this machine, the site and the cluster. Says what is wrong and how to "
            "fix it.\nThe exit code is 0 only if a job would run."
        ),
    )
    options.add_argument("--run", action="store_true", help=_("also run a small job on two nodes"))
    add_site(options)
    given = options.parse_args(argv)

    findings = examine(given.site, run_a_job=given.run)
    well = (
        _("Recorded runs can be read.")
        if clusters.is_recorded(given.site)
        else _("A job would run.")
    )
    text, is_well = report(findings, well)
    print(text)
    return 0 if is_well else 1


def examine(site_name: str | None, *, run_a_job: bool) -> list[Finding]:
    """Run all checks. An unexpected error in a check is a finding and stops no other check."""
    place = workspace.find()
    findings = run_checks(
        checks.packages,
        lambda: checks.folder(place),
        checks.fonts,
    )
    try:
        choice = clusters.choose(place, site_name)
    except LabError as error:
        return [
            *findings,
            bad(
                str(error),
                _("`course site show` prints the file, and `course site list` shows the presets"),
            ),
        ]
    findings.append(good(_("the cluster: {why}", why=choice.why)))
    if choice.site.recorded:
        return [*findings, *run_checks(lambda: recorded(place))]
    site = choice.site
    if site.box:
        clusters.put_commands_on_path(site)
        findings += run_checks(checks.network, checks.pace)
    findings += run_checks(lambda: checks.site_file(site, place), lambda: checks.commands(site))
    if stops_no_job(findings):
        findings += run_checks(lambda: checks.would_run(site))
    if run_a_job and stops_no_job(findings):
        findings += run_checks(lambda: checks.job(site))
    elif run_a_job:
        findings.append(
            bad(_("the test job was not submitted"), _("solve the problems above first"))
        )
    return findings


def recorded(place: workspace.Workspace) -> Iterator[Finding]:
    index = RecordingIndex.of(place)
    for one in index.recordings:
        runs = len(one.manifest.runs)
        yield good(
            _(
                "{name}: {runs} runs, {date}, {machine}",
                name=one.path.name,
                runs=runs,
                date=one.manifest.date,
                machine=one.manifest.machine,
            )
        )
    for words in index.refused:
        yield bad(words, _("download or copy the file again"))
