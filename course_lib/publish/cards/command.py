"""`course cards`: make a one-page summary of each lesson."""

from __future__ import annotations

from pathlib import Path

from course_lib.lab.commands.common import parser
from course_lib.lab.errors import LabError
from course_lib.lab.workspace import write_atomically
from course_lib.publish.building.source import lessons_in, read_lesson
from course_lib.publish.cards import content, pages
from course_lib.publish.run import chosen
from course_lib.shipped import SHIPPED

OUT = Path("build") / "cards"


def main(argv: list[str]) -> int:
    options = parser(
        "cards",
        "Makes a card of one page for each lesson, as Markdown and as HTML for printing. A card\n"
        "lists the lesson's commands, functions and results to remember, and no answers.",
    )
    options.add_argument("lessons", nargs="*", help="lessons, such as 00 07b; default: all")
    options.add_argument("--out", type=Path, default=OUT, help=f"output folder; default: {OUT}")
    given = options.parse_args(argv)
    folder = SHIPPED / "lessons"
    every = lessons_in(folder, "py")
    if not every:
        raise LabError("there is no lessons/ here; `course cards` works in a clone only")
    wanted = chosen(folder, given.lessons, "py")
    made = 0
    for lesson, card in content.cards(read_lesson(path) for path in every):
        if lesson.path in wanted:
            made += 1
            write_atomically(given.out / f"{lesson.name}.md", pages.markdown(card))
            write_atomically(given.out / f"{lesson.name}.html", pages.html(card))
    print(f"{made} cards in {given.out}, as .md and as .html")
    return 0
