"""The order of the examination: machine, workspace, site, cluster, and on request a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from course_lib.lab import clusters, workspace
from course_lib.lab.doctor import cluster, machine, trial
from course_lib.lab.doctor.findings import Finding, bad, good
from course_lib.lab.errors import LabError
from course_lib.lab.job.site import Site
from course_lib.lab.recorded.shelf import Shelf

Check = Callable[[], Iterator[Finding]]


def examine(site_name: str | None, *, run_a_job: bool) -> list[Finding]:
    """A check that fails in a way nobody thought of is a finding too, and stops no other."""
    place = workspace.find()
    findings = _all(
        machine.python,
        machine.packages,
        machine.devices,
        lambda: machine.folder(place),
        lambda: machine.clock(place),
        machine.ports,
        machine.tensorboard,
        machine.fonts,
    )
    try:
        choice = clusters.choose(place, site_name)
    except LabError as error:
        return [
            *findings,
            bad(str(error), "`course site show` prints it, `site list` lists others"),
        ]
    findings.append(good(f"the cluster: {choice.why}"))
    if choice.site.recorded:
        return [*findings, *_all(lambda: recorded(place))]
    findings += _of_the_cluster(choice.site, place)
    if all(finding.level != "bad" for finding in findings):
        findings += _all(lambda: cluster.would_run(choice.site))
    if run_a_job:
        findings += _trial(choice.site, findings)
    return findings


def _of_the_cluster(site: Site, place: workspace.Workspace) -> list[Finding]:
    findings: list[Finding] = []
    if site.box:
        clusters.put_commands_on_path(site)
        findings += _all(cluster.network, cluster.pace)
    return findings + _all(
        lambda: cluster.site_file(site, place),
        lambda: cluster.commands(site),
        lambda: cluster.nodes(site),
        lambda: cluster.permissions(site),
        lambda: cluster.names(site),
        lambda: machine.scratch(site),
    )


def recorded(place: workspace.Workspace) -> Iterator[Finding]:
    shelf = Shelf.of(place)
    for one in shelf.recordings:
        runs = len(one.head.runs)
        yield good(f"{one.path.name}: {runs} runs, {one.head.date}, {one.head.machine}")
    for words in shelf.refused:
        yield bad(words, "get it again from where it came")


def _trial(site: Site, findings: list[Finding]) -> list[Finding]:
    if any(finding.level == "bad" for finding in findings):
        return [bad("the test job was not sent", "cure the faults above first")]
    return _all(lambda: trial.job(site))


def _all(*checks: Check) -> list[Finding]:
    findings: list[Finding] = []
    for check in checks:
        try:
            findings += list(check())
        except (LabError, OSError, ValueError) as error:
            findings.append(bad(f"{getattr(check, '__name__', 'a check')} failed: {error}", ""))
    return findings
