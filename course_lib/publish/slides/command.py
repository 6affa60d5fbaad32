"""`course slides`: make the lessons into slides, with the results of `course run`."""

from __future__ import annotations

from pathlib import Path

from course_lib.publish.book.command import pages_parser, tell_broken_links, workspace_of
from course_lib.publish.slides.site import write

OUT = Path("build") / "slides"


def main(argv: list[str] | None = None) -> int:
    parser = pages_parser("slides", "Writes a deck of slides for each part", OUT)
    parser.add_argument("--no-pdf", action="store_true", help="write only the web pages, no PDF")
    options = parser.parse_args(argv)
    workspace, out = workspace_of(options), options.out.resolve()
    decks = write(workspace, out, with_pdf=not options.no_pdf, language=options.language)
    print(decks)
    return int(tell_broken_links(decks.folder))
