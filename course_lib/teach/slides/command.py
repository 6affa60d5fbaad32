"""`course slides`: the lessons as slides, from a workspace in which the course was run."""

from __future__ import annotations

import argparse
from pathlib import Path

from course_lib.lab.errors import LabError
from course_lib.lab.workspace import PACKAGE
from course_lib.teach.book import check
from course_lib.teach.book.command import newest_run, refuse_unrun
from course_lib.teach.slides.site import write
from course_lib.words import ENGLISH, LANGUAGES

OUT = Path("build") / "slides"


def arguments() -> argparse.ArgumentParser:
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
    parser.add_argument(
        "--language",
        default=ENGLISH,
        choices=[ENGLISH, *LANGUAGES],
        help="of a translation, with the results of `course run --language` of the same",
    )
    return parser


def main(argv: list[str] | None = None) -> int:
    options = arguments().parse_args(argv)
    language = options.language
    if not (PACKAGE.parent / "lessons").is_dir():
        raise LabError("there is no lessons/ here; `course slides` works in a clone only")
    workspace = options.workspace or newest_run(language=language)
    if workspace:
        refuse_unrun(workspace, language)
    out, with_pdf = options.out.resolve(), not options.no_pdf
    decks = write(workspace, out, with_pdf=with_pdf, language=language)
    print(decks)
    broken = check.broken_links(decks.folder)
    for line in broken:
        print(f"broken: {line}")
    return int(bool(broken))
