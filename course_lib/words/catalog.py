"""What is known of one language: its messages, read from `locale/<language>/*.po`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from course_lib.words.choice import folder
from course_lib.words.templates import (
    LEAST_LETTERS,
    PLACE,
    Template,
    own_letters,
    places_in,
    plain,
)


@dataclass(frozen=True)
class Catalog:
    exact: dict[str, str]
    templates: tuple[Template, ...]
    """Those with most letters of their own first."""


@cache
def catalog_of(code: str) -> Catalog:
    found: dict[str, str] = {}
    for path in sorted((folder() / code).glob("*.po")):
        found |= sentences_of(path)
    return catalog(found)


def catalog(found: dict[str, str]) -> Catalog:
    templates = [
        Template(english, translated)
        for english, translated in found.items()
        if places_in(english) and own_letters(english) >= LEAST_LETTERS
    ]
    templates.sort(key=_how_particular, reverse=True)
    exact = {plain(text): plain(said) for text, said in found.items() if not places_in(text)}
    return Catalog(exact, tuple(templates))


def _how_particular(template: Template) -> tuple[int, int, bool]:
    """Of equals the one whose end is known: "{what} is over", before "the run {name}"."""
    english = template.english
    return own_letters(english), len(PLACE.sub("", english)), not english.endswith("}")


def sentences_of(path: Path) -> dict[str, str]:
    """What the library says, not the cells of a lesson, which have their id as context. A message
    that is kept as it is was none: a name, or the words of another program."""
    from babel.messages.pofile import read_po

    with path.open("rb") as file:
        messages = read_po(file)
    return {
        str(message.id): str(message.string)
        for message in messages
        if message.id
        and message.string
        and not message.context
        and not message.fuzzy
        and message.id != message.string
    }
