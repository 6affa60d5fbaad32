"""A lesson in another language: its prose translated, its code cells the same bytes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from course_lib.teach.source import Cell, Lesson
from course_lib.teach.translation.catalogs import (
    Language,
    Translations,
    folder_of,
    language_of,
    read,
)
from course_lib.teach.translation.wanted import Wanted

OUT_OF_THE_FOLDER = re.compile(r'(\]\(|src=")(\.\./)')


def localized_lessons(lessons: list[Lesson], repository: Path, code: str) -> list[Lesson]:
    language, folder = language_of(repository, code), folder_of(repository, code)
    return [localized(one, language, read(folder / f"{one.name}.po")) for one in lessons]


def localized(lesson: Lesson, language: Language, known: Translations) -> Lesson:
    """A cell without a translation of its present English is shown in English, with a mark; a
    lesson of which nothing is translated has one mark, below its title."""
    found = {cell.id: _translation(cell, known) for cell in lesson.cells}
    is_begun = any(found.values())
    cells = tuple(
        replace(cell, text=_outwards(found[cell.id] or _marked(cell, language, is_begun)))
        if cell.kind == "markdown"
        else cell
        for cell in lesson.cells
    )
    return Lesson(lesson.path, cells)


def _translation(cell: Cell, known: Translations) -> str:
    return known.of(Wanted(cell.text, cell.id, "")) if cell.kind == "markdown" else ""


def _marked(cell: Cell, language: Language, is_begun: bool) -> str:
    if cell.text.startswith("# "):
        title, _, rest = cell.text.partition("\n")
        return f"{title}\n\n{_mark(language)}\n\n{rest.lstrip()}"
    return f"{_mark(language)}\n\n{cell.text}" if is_begun else cell.text


def _mark(language: Language) -> str:
    return f"> *{language.not_yet}*"


def _outwards(text: str) -> str:
    """Links out of the folder of notebooks: that of a language lies one deeper."""
    return OUT_OF_THE_FOLDER.sub(r"\1../\2", text)
