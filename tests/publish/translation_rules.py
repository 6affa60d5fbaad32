"""Rules that a translation must keep beside its English."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from course_lib.publish.building.source import lessons_in, read_lesson
from course_lib.publish.translation import catalogs
from course_lib.publish.translation.wanted import Wanted

FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*(?:\n|$))+")
SPAN = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
FORMULA = re.compile(r"\$\$?[^$]+\$\$?")
TARGET = re.compile(r'\]\(([^)\s]+)\)|(?:src|href)="([^"]+)"')
HEADING = re.compile(r"^(#+) ", re.MULTILINE)
ROW = re.compile(r"^\|", re.MULTILINE)
ITEM = re.compile(r"^(?:> ?)?(?:\d+\.|-) ", re.MULTILINE)
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
# Python, which is the same in all languages: calls, dotted names, arguments, places of values.
CALL = re.compile(
    r"\b[a-z_][\w.]*\([^()\n가-힣]*\)"
    r"|\b[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?:\[[^\]]*\])?"
    r"|\w+=(?:\([^()\n가-힣]*\)|[\w'\"{]+)"
    r"|\{\w+(?:![rs])?(?::[^{}]*)?\}",
    re.ASCII,
)
# Places for values.
PLACE = re.compile(r"(?<!\{)\{(\w+(?:![rs])?(?::[^{}]*)?)\}")
# The ending of an English plural, which another language leaves out: `{count} node{s}`.
ENDING = re.compile(r"(?<=[^\W\d_])\{(\w+)\}")
BRACKETS = re.compile(r"\([^()]*\)")
FOUR_WORDS = re.compile(r"(?:\b[A-Za-z][a-z']+[,;]? ){3,}[A-Za-z][a-z']+")


@dataclass(frozen=True)
class Term:
    """Line of the glossary: English words, their translation, and wrong translations."""

    english: str
    words: tuple[str, ...]
    never: tuple[str, ...]

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(rf"(?<![\w-]){re.escape(self.english)}(?:s|es)?(?![\w-])", re.IGNORECASE)


def new_exercises(repository: Path, code: str = "ko") -> dict[str, dict[str, str]]:
    """Return untranslated cells of exercises and solutions, by lesson and cell. A new exercise
    may be in English: readers see it with a mark, and `course translate status`
    names it.
    """
    found = {}
    for path in lessons_in(repository / "lessons", "py"):
        known = catalogs.read(catalogs.folder_of(repository, code) / f"{path.stem}.po")
        found[path.stem] = {
            cell.id: cell.text
            for cell in read_lesson(path).cells
            if cell.kind == "markdown" and {"exercise", "solution"} & {*cell.tags}
            and cell.id not in known.former
        }  # fmt: skip
    return found


def glossary(path: Path) -> list[Term]:
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Term(row["english"], _several(row["term"]), _several(row["never"]))
            for row in csv.DictReader(file)
        ]


def _several(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split("|") if part.strip())


def faults(wanted: Wanted, said: str, terms: list[Term]) -> Iterator[str]:
    """Yield a sentence for each fault of one translated message."""
    english = wanted.english
    for what, form in (("code", SPAN), ("code blocks", FENCED)):
        yield from _differing(what, form.findall(english), form.findall(said))
    formulas = [FORMULA.findall(SPAN.sub("", text)) for text in (english, said)]
    yield from _differing("formulas", *formulas)
    yield from _differing("links", TARGET.findall(english), TARGET.findall(said))
    if wanted.cell:
        for what, form in (("headings", HEADING), ("rows", ROW), ("items", ITEM)):
            yield from _differing(what, form.findall(english), form.findall(said))
    else:
        ours, theirs = set(PLACE.findall(english)), set(PLACE.findall(said))
        yield from _differing("places", ours - set(ENDING.findall(english)) | theirs, theirs)
        yield from _differing("places", ours | theirs, ours)
    if lost := _numbers(english) - _numbers(said):
        yield f"numbers are lost: {', '.join(sorted(lost))}"
    if said != english and (left := FOUR_WORDS.search(BRACKETS.sub("", prose(said)))):
        yield f"English is left: {left[0]!r}"
    if said != english:
        yield from _terms(english, said, terms)


def prose(text: str) -> str:
    """Return the text without the parts that are the same in all languages."""
    for form in (FENCED, INDENTED, SPAN, FORMULA, TARGET, CALL):
        text = form.sub(" | ", text)
    return text


def _numbers(text: str) -> set[str]:
    return set(NUMBER.findall(prose(text)))


def _differing(what: str, ours: object, theirs: object) -> Iterator[str]:
    before, after = Counter(ours), Counter(theirs)  # type: ignore[call-overload]
    if before != after:
        lost, new = list((before - after).elements()), list((after - before).elements())
        yield f"{what} differ: {lost} lost, {new} new"


def _terms(english: str, said: str, terms: list[Term]) -> Iterator[str]:
    before, after = prose(english), prose(said)
    for term in terms:
        if term.pattern.search(before) and not any(word in after for word in term.words):
            yield f"{term.english!r} is {' or '.join(term.words)}"
        for word in term.never:
            if word in after:
                yield f"{word!r} is no word for {term.english!r}: {term.words[0]}"
