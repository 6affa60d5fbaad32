"""Contents of the course from the README: parts, lessons and the text around them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from course_lib.publish.book.page import START
from course_lib.publish.building.source import LessonError
from course_lib.publish.translation.wanted import sections

PART = re.compile(r"^\| (?P<number>[IVX]+) \| \*\*(?P<title>[^*]+)\*\* \|", re.MULTILINE)
LESSON = re.compile(r"\(notebooks/(?P<name>\w+)\.ipynb\)")
# Links to files that the book does not include.
ELSEWHERE = re.compile(r"\[(?P<words>[^\]]*)\]\((?!https?://|images/|notebooks/)[^)]*\)")


@dataclass(frozen=True)
class Part:
    title: str
    lessons: tuple[str, ...]


@dataclass(frozen=True)
class Contents:
    title: str
    # Markdown: description of the course and its table of lessons.
    front: str
    # Markdown: instructions to run the course.
    start: str
    parts: tuple[Part, ...]


def read(readme: str, names: list[str]) -> Contents:
    """Read the README. Each lesson in `names` has to be in its table, in exactly one part."""
    head, *others = sections(readme)
    tables = [section for section in others if PART.search(section)]
    if len(tables) != 1:
        raise LessonError(f"README.md has {len(tables)} sections with a table of parts, not one")
    parts = _parts(tables[0])
    listed = [name for part in parts for name in part.lessons]
    if wrong := sorted(set(names) ^ set(listed)):
        raise LessonError(f"README.md's table and lessons/ differ in: {', '.join(wrong)}")
    title = head.partition("\n")[0].removeprefix("# ")
    front = _page("\n\n".join([head, tables[0]]))
    start = [
        f"# {START}",
        *(each for each in others if each not in tables),
    ]
    return Contents(title, front, _page("\n\n".join(start)), parts)


def _parts(table: str) -> tuple[Part, ...]:
    """Return the parts with number, title and lessons."""
    _, *pieces = PART.split(table)
    titles = zip(pieces[0::3], pieces[1::3], strict=True)
    return tuple(
        Part(f"{number}. {title}", tuple(LESSON.findall(rows)))
        for (number, title), rows in zip(titles, pieces[2::3], strict=True)
    )


def _page(markdown: str) -> str:
    return LESSON.sub(r"(\g<name>.ipynb)", ELSEWHERE.sub(lambda found: found["words"], markdown))
