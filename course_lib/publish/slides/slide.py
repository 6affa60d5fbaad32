"""A slide, and a lesson's entries in `lessons/slides.toml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from course_lib.publish.building.source import Lesson, LessonError

# Entries of one lesson: cell id -> title of its slide, false for no slide, or a table with `title`
# and wishes. In a translation, `guesses` maps the English comments beside gaps to translated ones.
Sentences = Mapping[str, Any]


@dataclass
class Slide:
    id: str
    kind: str
    title: str
    # HTML.
    body: str
    # Markdown for the presenter.
    notes: list[str] = field(default_factory=list)
    # Alternative text of the picture, used as notes if there are no others.
    in_words: str = ""
    section: str = ""
    # Whether the slide shows a result of a run.
    is_measured: bool = False


def head_of(lesson: Lesson) -> list[tuple[str, str]]:
    """Return the rows of the table at the lesson's top: goal, minutes, devices, earlier lessons."""
    return re.findall(r"^\| ([^|]+) \| (.+) \|$", lesson.cells[0].text, re.MULTILINE)[:4]


def minutes_of(lesson: Lesson) -> int:
    rows = head_of(lesson)
    if found := re.match(r"\d+", rows[1][1]) if len(rows) > 1 else None:
        return int(found[0])
    raise LessonError(f"{lesson.path}: its table does not say how many minutes it takes")


@dataclass(frozen=True)
class Titles:
    """Entries of slides.toml for the cells of one lesson."""

    sentences: Sentences

    def of(self, identifier: str) -> str:
        told = self.sentences.get(identifier, "")
        told = told.get("title", "") if isinstance(told, Mapping) else told
        return told if isinstance(told, str) else ""

    def are_refused(self, identifier: str) -> bool:
        return self.sentences.get(identifier) is False

    def wishes(self, identifier: str) -> Mapping[str, Any] | None:
        """Return the wishes for a cell; None if it has no entry."""
        told = self.sentences.get(identifier)
        return told if isinstance(told, Mapping) else {} if told else None
