"""A slide, and what a lesson says of itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from course_lib.teach.slides.results import Measured
from course_lib.teach.source import Lesson

Sentences = Mapping[str, Any]
"""Of one lesson, as `lessons/slides.toml` explains: the id of a cell -> the title of its slide, or
false for none, or a table with `title` and wishes."""


@dataclass
class Slide:
    id: str
    kind: str
    title: str
    body: str
    """HTML."""
    notes: list[str] = field(default_factory=list)
    """Markdown: what there is to say."""
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

    able_to: str
    minutes: str
    devices: str
    before: str


def head_of(lesson: Lesson) -> Head:
    rows = dict(re.findall(r"^\| ([^|]+) \| (.+) \|$", lesson.cells[0].text, re.MULTILINE))
    names = ("You will be able to", "Minutes", "Devices", "Before")
    return Head(*(rows.get(name, "") for name in names))
