"""`course slides`: the lessons as slides, from a workspace in which the course was run."""

from __future__ import annotations

import argparse
from pathlib import Path

from course_lib.lab.errors import LabError
from course_lib.lab.workspace import PACKAGE
from course_lib.teach.book import check
from course_lib.teach.book.command import newest_run
from course_lib.teach.run import executed_in
from course_lib.teach.slides.site import write

OUT = Path("build") / "slides"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="course slides",
        description="writes a deck of slides for each part, with the results of `course run`",
    )
    parser.add_argument(
        "--workspace",
        type=Path,
        help="in which `course run` ran lessons; default: the newest course-run-… of this folder",
    )
    parser.add_argument("--out", type=Path, default=OUT, help=f"default: {OUT}")
    parser.add_argument("--no-pdf", action="store_true", help="only the pages, no PDF of each")
    options = parser.parse_args(argv)
    if not (PACKAGE.parent / "lessons").is_dir():
        raise LabError("there is no lessons/ here; `course slides` works in a clone only")
    workspace = options.workspace or newest_run()
    if workspace and not executed_in(workspace).is_dir():
        raise LabError(f"no lesson was run in {workspace}; `course run --workspace` does it")
    decks = write(workspace, options.out.resolve(), with_pdf=not options.no_pdf)
    print(decks)
    broken = check.broken_links(decks.folder)
    for line in broken:
        print(f"broken: {line}")
    return int(bool(broken))
