"""Messages of the course: translated with the compiled catalog, then filled with values."""

from __future__ import annotations

import gettext
from functools import cache
from string import Formatter

from course_lib.read import messages as read_messages
from course_lib.read.messages import N_
from course_lib.words.language import ENGLISH, LOCALE, language
from course_lib.words.particles import fitted

__all__ = ["DOMAIN", "LABEL", "N_", "_", "label"]

DOMAIN = "course"
# Context of lesson labels in the catalog.
LABEL = "label"
_FORMATTER = Formatter()


def _(message: str, /, **values: object) -> str:
    """Translate a sentence of the course, then fill in the values."""
    code = language()
    if code == ENGLISH:
        return message.format(**values) if values else message
    said = _catalog(code).gettext(message)
    return _filled(said, values) if values else said


def label(text: str) -> str:
    """Translate a title or claim of a cell, whole or in parts, as in "GPipe: planned peak"."""
    code = language()
    said = text if code == ENGLISH or not text else _catalog(code).pgettext(LABEL, text)
    return said if said != text or ": " not in text else ": ".join(map(label, text.split(": ")))


@cache
def _catalog(code: str) -> gettext.NullTranslations:
    return gettext.translation(DOMAIN, LOCALE, languages=[code], fallback=True)


def _filled(message: str, values: dict[str, object]) -> str:
    """Fill the values into a message, and adapt the particles after them."""
    text = ""
    for literal, name, spec, conversion in _FORMATTER.parse(message):
        text = fitted(text + literal, len(text))
        if name is not None:
            value, _key = _FORMATTER.get_field(name, (), values)
            value = _FORMATTER.convert_field(value, conversion)
            text += format(value, (spec or "").format(**values))
    return text


# The readers work without the course; within it, they use the learner's language.
read_messages.translator = _
