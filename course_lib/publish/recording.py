"""`course record`: pack the runs of a workspace into files for other machines."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
from pathlib import Path
from typing import Any

from course_lib.lab.errors import LabError, SlurmError
from course_lib.lab.lab import Lab
from course_lib.lab.queue.records import RECORDED, Record, Registry
from course_lib.lab.recorded import pack as packing
from course_lib.lab.recorded.printed import printed_in
from course_lib.lab.recorded.recording import ENDING, Recording
from course_lib.lab.workspace import Workspace, find
from course_lib.publish.book import origin
from course_lib.publish.executed import executed_in
from course_lib.words import _

NAME = re.compile(r"[a-z0-9][\w-]{0,60}", re.ASCII)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="course record",
        description=_(
            "Packs runs that have ended. Writes one file for each lesson that `course run "
            "--keep` ran, or one file with all runs of the workspace."
        ),
    )
    parser.add_argument("--workspace", type=Path, help=_("default: the current workspace"))
    parser.add_argument("--out", type=Path, help=_("default: recordings/ of the workspace"))
    parser.add_argument("--name", default="", help=_("write all runs into one file with this name"))
    parser.add_argument(
        "--as-site",
        default="",
        metavar="NAME",
        help=_(
            "another name for the cluster, such as box-h100. Lessons then show these runs beside "
            "the runs of the course's own box, not instead of them"
        ),
    )
    parser.add_argument("--check", type=Path, metavar="FILE", help=_("only test this recording"))
    options = parser.parse_args(argv)
    if options.check:
        recording = Recording(options.check)
        recording.check()
        found = recording.manifest
        print(f"{options.check}: {len(found.runs)} runs, whole; {found.date}, {found.machine}")
        return 0
    workspace = Workspace(options.workspace.resolve()) if options.workspace else find()
    lessons = {} if options.name else notebooks(workspace)
    groups = by_lesson(workspace, lessons)
    name = options.name or ("" if groups else "runs")
    for flag, given in (("--name", name), ("--as-site", options.as_site)):
        if given and not NAME.fullmatch(given):
            raise LabError(
                _("{flag} {given!r}: use letters, digits, - and _", flag=flag, given=given)
            )
    groups = groups or {name: [r for r in Registry(workspace).all() if r.cluster != RECORDED]}
    folder, pace = options.out or workspace.folder / "recordings", device_pace(workspace)
    made = 0
    for name, records in groups.items():
        if runs := packing.sources(workspace, records):
            file = folder / f"{name}{ENDING}"
            printed = dict(pair for one in lessons.get(name, ()) for pair in printed_in(one))
            print(packing.pack(runs, workspace, pace, file, options.as_site, printed))
            made += 1
    if not made:
        raise LabError(
            _(
                "{folder} has no run that has ended. Lessons delete their runs at the end; "
                "`course run --keep` keeps them",
                folder=workspace.folder,
            )
        )
    return 0


def notebooks(workspace: Workspace) -> dict[str, list[dict[str, Any]]]:
    """Return the executed notebooks of each lesson, in any language."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(executed_in(workspace.folder).rglob("*.ipynb")):
        with contextlib.suppress(OSError, ValueError):
            found.setdefault(file.stem, []).append(json.loads(file.read_text(encoding="utf-8")))
    return found


def by_lesson(
    workspace: Workspace, lessons: dict[str, list[dict[str, Any]]]
) -> dict[str, list[Record]]:
    """Group the runs by lesson, from the metadata of executed notebooks."""
    records = {record.folder: record for record in Registry(workspace).all()}
    groups: dict[str, dict[str, Record]] = {}
    for lesson, executed in lessons.items():
        for notebook in executed:
            names = (notebook["metadata"].get(origin.KEY) or {}).get("runs", ())
            made = {name: records[name] for name in names if name in records}
            groups.setdefault(lesson, {}).update(made)
    return {name: list(made.values()) for name, made in groups.items() if made}


def device_pace(workspace: Workspace) -> float:
    """Return the device pace of this workspace's cluster; 1 if it does not answer."""
    try:
        return Lab(workspace.folder, quiet=True).device_pace
    except (LabError, SlurmError):
        return 1.0
