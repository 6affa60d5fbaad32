"""A lesson in another language: its prose translated, its code cells the same bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable
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
from course_lib.teach.translation.wanted import README, Wanted, of_readme

OUT_OF_THE_FOLDER = re.compile(r'(\]\(|src=")(\.\./)')


def localized_lessons(
    lessons: list[Lesson], repository: Path, code: str, pictures: Iterable[str]
) -> list[Lesson]:
    """`pictures`: names of those that this language has of its own."""
    language, folder = language_of(repository, code), folder_of(repository, code)
    return [
        with_own(localized(one, language, read(folder / f"{one.name}.po")), pictures)
        for one in lessons
    ]


def localized_readme(repository: Path, code: str) -> str:
    language = language_of(repository, code)
    known = read(folder_of(repository, code) / f"{README}.po")
    texts = [(one.english, known.of(one)) for one in of_readme(repository)]
    is_begun = any(said for _, said in texts)
    return "\n\n".join(said or _marked(text, language, is_begun) for text, said in texts)


def with_own(lesson: Lesson, pictures: Iterable[str]) -> Lesson:
    """Links to the pictures of this language, which lie beside its notebooks."""
    names = "|".join(re.escape(name) for name in pictures)
    link = re.compile(rf"\.\./\.\./images/(?=(?:{names})\b)")
    return replace(
        lesson,
        cells=tuple(
            replace(cell, text=link.sub("images/", cell.text))
            if names and cell.kind == "markdown"
            else cell
            for cell in lesson.cells
        ),
    )


def localized(lesson: Lesson, language: Language, known: Translations) -> Lesson:
    """A cell without a translation of its present English is shown in English, with a mark; a
    lesson of which nothing is translated has one mark, below its title."""
    found = {cell.id: _translation(cell, known) for cell in lesson.cells}
    is_begun = any(found.values())
    cells = tuple(
        replace(cell, text=_outwards(found[cell.id] or _marked(cell.text, language, is_begun)))
        if cell.kind == "markdown"
        else cell
        for cell in lesson.cells
    )
    return Lesson(lesson.path, cells)


def _translation(cell: Cell, known: Translations) -> str:
    return known.of(Wanted(cell.text, cell.id, "")) if cell.kind == "markdown" else ""


def _marked(text: str, language: Language, is_begun: bool) -> str:
    if text.startswith("# "):
        title, _, rest = text.partition("\n")
        return f"{title}\n\n{_mark(language)}\n\n{rest.lstrip()}"
    return f"{_mark(language)}\n\n{text}" if is_begun else text


def _mark(language: Language) -> str:
    return f"> *{language.not_yet}*"


def _outwards(text: str) -> str:
    """Links out of the folder of notebooks: that of a language lies one deeper."""
    return OUT_OF_THE_FOLDER.sub(r"\1../\2", text)
