"""What the README tells of the course: its parts with their lessons, and the words around them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from course_lib.teach.book.page import START
from course_lib.teach.building.source import LessonError
from course_lib.teach.translation.wanted import sections
from course_lib.words import ENGLISH, told

PART = re.compile(r"^\| (?P<number>[IVX]+) \| \*\*(?P<title>[^*]+)\*\* \|", re.MULTILINE)
LESSON = re.compile(r"\(notebooks/(?P<name>\w+)\.ipynb\)")
ELSEWHERE = re.compile(r"\[(?P<words>[^\]]*)\]\((?!https?://|images/|notebooks/)[^)]*\)")
"""Links to files that a reader of the book does not have."""


@dataclass(frozen=True)
class Part:
    title: str
    lessons: tuple[str, ...]


@dataclass(frozen=True)
class Contents:
    title: str
    front: str
    """Markdown: what the course is, and its table of lessons."""
    start: str
    """Markdown: how to run it oneself."""
    parts: tuple[Part, ...]


def read(readme: str, names: list[str], language: str = ENGLISH) -> Contents:
    """`names`: the lessons there are; each has to stand in the table, and in one part."""
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
        f"# {told(START, language)}",
        *(each for each in others if each not in tables),
    ]
    return Contents(title, front, _page("\n\n".join(start)), parts)


def _parts(table: str) -> tuple[Part, ...]:
    """One after the other: number, title, and the rows up to the next."""
    _, *pieces = PART.split(table)
    titles = zip(pieces[0::3], pieces[1::3], strict=True)
    return tuple(
        Part(f"{number}. {title}", tuple(LESSON.findall(rows)))
        for (number, title), rows in zip(titles, pieces[2::3], strict=True)
    )


def _page(markdown: str) -> str:
    return LESSON.sub(r"(\g<name>.ipynb)", ELSEWHERE.sub(lambda found: found["words"], markdown))
