"""`course rehearse`: the dry run of the day before."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from course_lib.lab import clusters, workspace
from course_lib.lab.commands.common import add_site, count, parser
from course_lib.lab.doctor import cluster, machine, trial
from course_lib.lab.doctor.findings import BAD, FAIR, GOOD, Finding, bad, fair, good, report
from course_lib.lab.errors import LabError
from course_lib.lab.job.script import render
from course_lib.lab.job.site import Site
from course_lib.lab.queue.slurm import Slurm, job_environment
from course_lib.lab.workspace import Workspace
from course_lib.teach.rehearsal import places, shapes, verdict
from course_lib.teach.rehearsal.shapes import Lessons
from course_lib.teach.rehearsal.waves import Stage, Wave, stand_in

ONE_BOX = "these jobs waited for one box; of your learners each has one, and waits for nobody"
WELL = "Nothing of this stops the class."


def main(argv: list[str]) -> int:
    options = parser(
        "rehearse",
        "The dry run of the day before: jobs of the lessons' shapes, short, by as many at once as\n"
        "will come, on the site that will be used. Says what will fail, what will be slow, and\n"
        "what to book. Exit code 1 if something will fail.",
    )
    options.add_argument("--users", type=count, default=30, help="how many will come (30)")
    options.add_argument("--reservation", default="", help="of the cluster, made for the class")
    options.add_argument("--lessons", nargs="+", default=[], help="numbers, such as 00 07b; all")
    options.add_argument(
        "--minutes", type=count, default=10, help="give up on a kind of job after so many (10)"
    )
    options.add_argument(
        "--learn", nargs="+", type=Path, metavar="WORKSPACE",
        help="renew what lessons ask for, from workspaces in which `course run` ran them",
    )  # fmt: skip
    add_site(options)
    given = options.parse_args(argv)
    if given.learn:
        return _learn(given.learn)
    lessons = shapes.chosen(given.lessons)
    if clusters.is_recorded(given.site):
        raise LabError("nothing runs here: runs are recorded ones, so there is nothing to rehearse")
    place = workspace.find()
    site = clusters.choose(place, given.site).site
    if given.reservation:
        site = site.but(reservation=given.reservation)
    clusters.put_commands_on_path(site)
    findings = rehearse(lessons, place, site, given.users, 60.0 * given.minutes)
    text, is_well = told_in_order(findings)
    print(f"{text}\n\n{verdict.to_book(lessons, given.users, site)}")
    return 0 if is_well else 1


def told_in_order(findings: list[Finding]) -> tuple[str, bool]:
    """What will fail, then what is slow or worth knowing, then what is in order."""
    ordered = sorted(findings, key=lambda one: (BAD, FAIR, GOOD).index(one.level))
    return report(ordered, well=WELL)


def _learn(workspaces: list[Path]) -> int:
    found = shapes.learn(workspaces)
    if not found:
        raise LabError(f"no executed lessons with jobs in {', '.join(map(str, workspaces))}")
    shapes.keep(found)
    print(f"{len(found)} lessons learned: {', '.join(found)}")
    return 0


def rehearse(
    lessons: Lessons, place: Workspace, site: Site, users: int, patience_s: float
) -> list[Finding]:
    """Looks first; sends jobs only where one would be taken."""
    findings = [good(f"rehearsal of {len(lessons)} lessons for {users} learners at {site.name}")]
    findings += _all(
        lambda: cluster.site_file(site, place),
        lambda: cluster.commands(site),
        lambda: cluster.nodes(site),
        lambda: cluster.permissions(site),
        machine.ports,
        lambda: places.disk(place, users),
        lambda: places.quota(place),
        lambda: places.memory(users, site),
        lambda: accepted(lessons, site),
    )
    if any(finding.level == BAD for finding in findings):
        return [*findings, bad("no jobs were sent", "cure the faults above, then rehearse again")]
    _say("one job looks at the nodes from inside …")
    nodes = max(shape.nodes for shape in shapes.distinct(lessons))
    inside = site.but(max_nodes=min(site.max_nodes or nodes, nodes))
    findings += _all(lambda: trial.job(inside, leave_it=False))
    waves: list[Wave] = []
    try:
        with Stage(place, site) as stage:
            for shape in shapes.distinct(lessons):
                _say(f"{users} jobs at once, {shape.words} …")
                waves.append(stage.play(shape, users, patience_s))
    except LabError as error:
        findings.append(bad(f"the rehearsal could not go on: {error}", ""))
    findings += verdict.of_waves(waves)
    if site.box:
        return [*findings, fair(ONE_BOX)]
    return [*findings, *verdict.slow(lessons, waves)]


def accepted(lessons: Lessons, site: Site) -> Iterator[Finding]:
    """Slurm's own judgement of each shape with its time limit; nothing is submitted."""
    taken: list[str] = []
    refused: dict[str, list[str]] = {}
    environment = job_environment(os.environ)
    for shape in shapes.distinct(lessons):
        text = render(stand_in("rehearsal", shape), site).text
        asked = f"{shape.words}, {shape.minutes} min"
        try:
            Slurm().call("sbatch", "--test-only", stdin=text, environment=environment)
            taken.append(asked)
        except LabError as error:
            which = ", ".join(verdict.needing(lessons, shape))
            refused.setdefault(str(error), []).append(f"{asked} (lessons {which})")
    for said, of in refused.items():
        yield bad(f"the cluster would refuse {'; '.join(of)}: {said}", "")
    if taken:
        yield good(f"the cluster would take: {'; '.join(taken)}")


def _all(*checks: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """One that cannot be made is a finding too, and stops no other."""
    findings: list[Finding] = []
    for check in checks:
        try:
            findings += list(check())
        except (LabError, OSError, ValueError) as error:
            findings.append(bad(str(error), ""))
    return findings


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
