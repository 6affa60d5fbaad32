"""A slide, and what a lesson says of itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from course_lib.teach.building.source import Lesson
from course_lib.teach.slides.results import Measured

Sentences = Mapping[str, Any]
"""Of one lesson, as `lessons/slides.toml` explains: the id of a cell -> the title of its slide, or
false for none, or a table with `title` and wishes. In another language `guesses` has what comments
beside gaps say, by the English."""


@dataclass
class Slide:
    id: str
    kind: str
    title: str
    body: str
    """HTML."""
    notes: list[str] = field(default_factory=list)
    """Markdown: what there is to say."""
    in_words: str = ""
    """What its picture shows: said where nothing else is."""
    section: str = ""
    is_measured: bool = False
    """Whether it shows what a run gave."""


@dataclass
class Recap:
    measured: list[Measured] = field(default_factory=list)
    terms: list[str] = field(default_factory=list)
    exercises: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Head:
    """The table at the top of a lesson."""

    rows: tuple[tuple[str, str], ...]
    """Name and text, in the order in which every lesson has them: what you will be able to do, how
    many minutes it takes, on how many devices, after which lessons."""

    @property
    def minutes(self) -> int:
        """0 where it does not say."""
        found = re.match(r"\d+", self.rows[1][1]) if len(self.rows) > 1 else None
        return int(found[0]) if found else 0


def head_of(lesson: Lesson) -> Head:
    rows = re.findall(r"^\| ([^|]+) \| (.+) \|$", lesson.cells[0].text, re.MULTILINE)
    return Head(tuple((name, text) for name, text in rows[:4]))


@dataclass(frozen=True)
class Titles:
    """What the file says of the cells of one lesson."""

    sentences: Sentences

    def of(self, identifier: str) -> str:
        told = self.sentences.get(identifier, "")
        told = told.get("title", "") if isinstance(told, Mapping) else told
        return told if isinstance(told, str) else ""

    def are_refused(self, identifier: str) -> bool:
        return self.sentences.get(identifier) is False

    def wishes(self, identifier: str) -> Mapping[str, Any] | None:
        """None where nothing is said of that cell."""
        told = self.sentences.get(identifier)
        return told if isinstance(told, Mapping) else {} if told else None

    @property
    def guesses(self) -> Mapping[str, str]:
        return dict(self.sentences.get("guesses", {}))
