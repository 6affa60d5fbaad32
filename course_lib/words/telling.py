"""The sentence of another language for one that was made in English."""

from __future__ import annotations

import re
from functools import lru_cache

from course_lib.words.catalog import Catalog, catalog_of
from course_lib.words.choice import ENGLISH, language
from course_lib.words.particles import any_particle, fitted
from course_lib.words.templates import Template

LONGEST = 800
"""Characters that are tried as one message: a log that an error quotes is none, and patterns with
several places take the cube of a length."""
MOST_SENTENCES = 4
"""That are one message."""
DEEPEST = 4
"""A value in a sentence may itself be a sentence: a hint in a report, a cause in a hint."""
END_OF_A_SENTENCE = re.compile(r"(?<=[.?!:]) +")
AMOUNT = re.compile(r"(?P<number>[\d.,e+-]+) ?(?P<unit>[^\d\s].*)")
"""The figures and a unit that is spelt out: `1.5 times`."""
LABEL = re.compile(r"(?P<what>[^()]+) \((?P<unit>[^()]+)\)")
"""Of an axis: `measured (times)`."""


def spoken(*words: str) -> tuple[str, ...]:
    """The same. It says to who collects sentences that these single words are shown somewhere."""
    return words


def told(text: object, code: str = "") -> str:
    """The same in the language of this process, or in `code`; English as it is."""
    said, code = str(text), code or language()
    return said if code == ENGLISH or not said.strip() else _told(said, code)


def heard(english: str) -> re.Pattern[str]:
    """Of a template, as a pattern: what `told` makes of it in the language of this process. So what
    a notebook has printed is known again in any language."""
    return _heard(english, language())


@lru_cache(maxsize=64)
def _heard(english: str, code: str) -> re.Pattern[str]:
    known = () if code == ENGLISH else catalog_of(code).templates
    said = next((one.translated for one in known if one.english == english), english)
    return re.compile(any_particle(Template(said, said).pattern.pattern), re.DOTALL)


@lru_cache(maxsize=4096)
def _told(text: str, code: str) -> str:
    return _whole(text, catalog_of(code), DEEPEST) or _in_parts(text, catalog_of(code))


def _whole(text: str, catalog: Catalog, depth: int) -> str:
    """Empty where no template has made it. Of several, the one with most words of its own did."""
    if text in catalog.exact:
        return catalog.exact[text]
    for template in catalog.templates if len(text) <= LONGEST else ():
        values = template.values_in(text)
        if values is not None:
            if any(", " in value for value in values.values()) and (parts := _list(text, catalog)):
                return parts
            inner = {
                name: value
                if _is_of_the_learner(name, value)
                else _inside(value, catalog, depth - 1)
                for name, value in values.items()
            }
            return fitted(template.filled(inner))
    return _put_together(text, catalog)


def _is_of_the_learner(name: str, value: str) -> bool:
    """The name of a variable: `minutes` is no unit there."""
    return name == "variable" and " " not in value


def _put_together(text: str, catalog: Catalog) -> str:
    """What a figure or a table has joined itself: a list, an amount, a label with its unit."""
    if len(text) > LONGEST:
        return ""
    if ", " in text and (parts := _list(text, catalog)):
        return parts
    if (amount := AMOUNT.fullmatch(text)) and amount["unit"] in catalog.exact:
        return f"{amount['number']}{catalog.exact[amount['unit']]}"
    if (label := LABEL.fullmatch(text)) and label["what"] in catalog.exact:
        return f"{catalog.exact[label['what']]} ({catalog.exact.get(label['unit'], label['unit'])})"
    return ""


def _list(text: str, catalog: Catalog) -> str:
    """What is several entries with commas between; else empty."""
    parts = [_listed(part, catalog) for part in text.split(", ")]
    return ", ".join(parts) if all(parts) else ""


def _listed(text: str, catalog: Catalog) -> str:
    """Of a list with commas: one entry, with values of one word."""
    if text in catalog.exact:
        return catalog.exact[text]
    for template in catalog.templates:
        values = template.values_in(text)
        if values is not None and not any(" " in value for value in values.values()):
            return fitted(template.filled(values))
    return ""


def _inside(value: str, catalog: Catalog, depth: int) -> str:
    if depth <= 0 or " " not in value.strip():
        return catalog.exact.get(value, value)
    if "; " in value and not any(
        one.english.count("; ") == value.count("; ") and one.values_in(value)
        for one in catalog.templates
    ):  # a list, as the text of a figure has it
        return "; ".join(_inside(part, catalog, depth) for part in value.split("; "))
    return _whole(value, catalog, depth) or _in_parts(value, catalog)


def _in_parts(text: str, catalog: Catalog) -> str:
    """Line by line, then sentence by sentence: a hint is often two, put together."""
    if "\n" in text:
        return "\n".join(_line(line, catalog) for line in text.split("\n"))
    return _line(text, catalog)


def _line(line: str, catalog: Catalog) -> str:
    indent, bare = line[: len(line) - len(line.lstrip())], line.strip()
    if not bare:
        return line
    if indent and (found := _whole(line, catalog, DEEPEST)):
        return found
    if " · " in bare:
        return indent + " · ".join(_line(part, catalog) for part in bare.split(" · "))
    sentences, said = END_OF_A_SENTENCE.split(bare), []
    while sentences:
        for length in range(min(len(sentences), MOST_SENTENCES), 0, -1):
            part = " ".join(sentences[:length])
            if found := _whole(part, catalog, DEEPEST):
                said.append(found)
                break
        else:
            length = 1
            said.append(sentences[0])
        sentences = sentences[length:]
    return indent + " ".join(said)
