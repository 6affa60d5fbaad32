"""A lesson in another language: translated prose, and identical code cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from course_lib.publish.building.source import Lesson, number_of
from course_lib.publish.translation.catalogs import (
    Language,
    Translations,
    folder_of,
    language_of,
    read,
)
from course_lib.publish.translation.wanted import (
    README,
    SLIDES,
    Wanted,
    at_slide,
    guess_of,
    of_readme,
    plan_of,
)
from course_lib.words import ENGLISH

OUT_OF_THE_FOLDER = re.compile(r'(\]\(|src=")(\.\./)')


def localized_lessons(
    lessons: list[Lesson], repository: Path, code: str, pictures: Iterable[str]
) -> list[Lesson]:
    """Translate lessons; `pictures` names the pictures that this language has."""
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


def localized_sentences(
    sentences: Mapping[str, Mapping[str, Any]], repository: Path, code: str
) -> dict[str, Mapping[str, Any]]:
    """Translate the entries of `lessons/slides.toml`, by lesson; untranslated ones stay English."""
    if code == ENGLISH:
        return dict(sentences)
    known = _of_slides(repository, code)
    guesses = {
        english: said for (at, english), said in known.cells.items() if at == guess_of(english)
    }
    return {
        name: {
            **{cell: _text(number_of(Path(name)), cell, told, known) for cell, told in own.items()},
            "guesses": guesses,
        }
        for name, own in sentences.items()
    }


def _text(number: str, cell: str, told: Any, known: Translations) -> Any:
    """Translate one entry: a title, a table with a title, the terms, or false for no slide."""
    if isinstance(told, Mapping) and "title" in told:
        return {**told, "title": _text(number, cell, told["title"], known)}
    if isinstance(told, list):
        said = known.of(Wanted(", ".join(told), at_slide(number, cell), ""))
        return said.split(", ") if said else told
    return (known.of(Wanted(told, at_slide(number, cell), "")) or told) if told else told


def of_plans(repository: Path, code: str) -> Callable[[str], str]:
    """Return a function that translates the texts of `lessons/timetables.toml`."""
    known = Translations() if code == ENGLISH else _of_slides(repository, code)
    return lambda english: known.of(Wanted(english, plan_of(english), "")) or english


def _of_slides(repository: Path, code: str) -> Translations:
    return read(folder_of(repository, code) / f"{SLIDES}.po")


def with_own(lesson: Lesson, pictures: Iterable[str]) -> Lesson:
    """Let links to translated pictures point to the folder beside the translated notebooks."""
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
    """Translate a lesson. A cell without a current translation stays English, with a mark.

    A lesson without any translation has one mark, below its title.
    """
    prose = [cell for cell in lesson.cells if cell.kind == "markdown"]
    found = {cell.id: known.of(Wanted(cell.text, cell.id, "")) for cell in prose}
    is_begun = any(found.values())
    made = {}
    for cell in prose:
        text = found[cell.id] or _marked(cell.text, language, is_begun)
        # Links that leave the folder of notebooks. A translation lies one folder deeper.
        made[cell.id] = replace(cell, text=OUT_OF_THE_FOLDER.sub(r"\1../\2", text))
    return Lesson(lesson.path, tuple(made.get(cell.id, cell) for cell in lesson.cells))


def _marked(text: str, language: Language, is_begun: bool) -> str:
    mark = f"> *{language.not_yet}*"
    if text.startswith("# "):
        title, _, rest = text.partition("\n")
        return f"{title}\n\n{mark}\n\n{rest.lstrip()}"
    return f"{mark}\n\n{text}" if is_begun else text
