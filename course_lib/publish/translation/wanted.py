"""Messages to translate, by catalog, in reading order."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from itertools import chain
from pathlib import Path
from typing import Any

from course_lib.publish.building.gaps import with_gaps
from course_lib.publish.building.source import Lesson, lessons_in, read_lesson
from course_lib.publish.slides.marks import guesses_in

# Catalog of the words in pictures; the context names the picture.
PICTURES = "images"
SVG_TEXT = re.compile(r"(?P<begin><(?P<tag>text|title)\b(?P<attributes>[^>]*)>)(?P<words>[^<]*)")
WORDS = re.compile(r"[^\W\d_]{2}")
SECTION = re.compile(r"^(?=## )", re.MULTILINE)
# Catalog of the library's sentences.
LIBRARY = "course"
# Catalog of the slides.
SLIDES = "slides"
# Catalog of the README, whose sections are the first pages of the book.
README = "readme"
# Files whose texts are shown to learners.
TABLES = ("lab/job/sites/*.toml", "read/first_causes/causes.toml")
SHOWN_FIELDS = ("title", "meaning", "meaning_of_several", "remedy")
MAGIC = re.compile(r"^\s*[!%].*$", re.MULTILINE)
# Sentences of the library are marked.
MARKERS = ("_", "N_")
# At least two words.
SEVERAL_WORDS = re.compile(r"[A-Za-z]{2,}\W*\s+\W*[A-Za-z(]")
LETTERS = re.compile("[A-Za-z]{2,}")
# Queries of tables, shell commands and regular expressions in a lesson's cells.
NO_LABEL = re.compile(r"[=$|\n]|\\|^[ \[]|^echo |^[a-z]+(?:_[a-z0-9]+)+$|Error:")
# Calls whose labels are often a single word.
LABELLED = re.compile(r"claim|predict|show\.\w+")


@dataclass(frozen=True)
class Wanted:
    """Message to translate. `cell` is its context, such as a cell id, or empty for a sentence."""

    english: str
    cell: str
    place: str


def of_lesson(lesson: Lesson, repository: Path) -> list[Wanted]:
    place = str(lesson.path.relative_to(repository))
    cells = [Wanted(cell.text, cell.id, place) for cell in lesson.cells if cell.kind == "markdown"]
    return [*cells, *(Wanted(text, "", place) for text in labels_of(lesson))]


def labels_of(lesson: Lesson) -> list[str]:
    """Return the texts that a lesson's code cells pass to figures, claims and predictions."""
    cells = [cell.text for cell in lesson.cells if cell.kind == "code"]
    found = [labels_in(MAGIC.sub("", text)) for text in cells if not text.startswith("%%")]
    return list(dict.fromkeys(chain.from_iterable(found)))


def of_library(repository: Path) -> list[Wanted]:
    """Return the marked sentences of all packages. The box prints English, like Slurm."""
    room = repository / "course_lib"
    said: dict[str, str] = {}
    for path in sorted(room.rglob("*.py")):
        for text in marked_in(path.read_text(encoding="utf-8")):
            said.setdefault(text, str(path.relative_to(repository)))
    for path in sorted(path for pattern in TABLES for path in room.glob(pattern)):
        for text in _texts(tomllib.loads(path.read_text(encoding="utf-8"))):
            said.setdefault(text, str(path.relative_to(repository)))
    return [Wanted(text, "", where) for text, where in said.items() if text]


def _texts(table: dict[str, Any]) -> Iterator[str]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _texts(value)
        elif name in SHOWN_FIELDS:
            yield value


def marked_in(source: str) -> list[str]:
    """Return the arguments of `_(…)` and `N_(…)` in source order, even within f-strings."""
    calls = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in MARKERS
        and node.args
    ]
    calls.sort(key=lambda call: (call.lineno, call.col_offset))
    texts = [call.args[0] for call in calls]
    return list(dict.fromkeys(text.value for text in texts if _is_text(text)))  # type: ignore[attr-defined]


def labels_in(source: str) -> list[str]:
    """Return the texts that a figure or sentence may show: several words, or a label."""
    return list(dict.fromkeys(_labels(ast.parse(source), is_label=False)))


def _labels(node: ast.AST, *, is_label: bool) -> Iterator[str]:
    if isinstance(node, ast.Constant):
        text, form = str(node.value), LETTERS if is_label else SEVERAL_WORDS
        if _is_text(node) and form.search(text) and not NO_LABEL.search(text):
            yield text
    elif isinstance(node, ast.JoinedStr):  # a label may follow a name: f"{name}: planned peak"
        texts = (str(part.value) for part in node.values if isinstance(part, ast.Constant))
        yield from (text[2:] for text in texts if is_label and text.startswith(": "))
    elif isinstance(node, ast.Compare) or _is_docstring(node):
        return
    elif isinstance(node, ast.Subscript):  # `runs["on the GPU"] = …` may name a curve
        if isinstance(node.ctx, ast.Store):
            yield from _labels(node.slice, is_label=False)
    elif isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        is_label = bool(LABELLED.fullmatch(name))
        for inner in [] if name == "print" else [node.func, *node.args, *node.keywords]:
            yield from _labels(inner, is_label=is_label)
    else:
        for inner in ast.iter_child_nodes(node):
            yield from _labels(inner, is_label=is_label)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def of_pictures(repository: Path) -> list[Wanted]:
    """Return the words in pictures. Code in a monospaced font is not translated."""
    found: dict[str, Wanted] = {}
    for path in sorted((repository / "images").glob("*.svg")):
        for one in SVG_TEXT.finditer(path.read_text(encoding="utf-8")):
            words = unescape(one["words"])
            if "monospace" not in one["attributes"] and WORDS.search(words):
                at = f"{path.name}: {words}"
                found.setdefault(at, Wanted(words, at, f"images/{path.name}"))
    return list(found.values())


def sections(readme: str) -> list[str]:
    """Split the README into the text before the first section, and the sections."""
    return [section.rstrip() for section in SECTION.split(readme)]


def of_readme(repository: Path) -> list[Wanted]:
    """Return each section of the README as a message named by its heading."""
    file = repository / "README.md"
    texts = sections(file.read_text(encoding="utf-8")) if file.is_file() else []
    return [Wanted(text, _slug(text.partition("\n")[0]), "README.md") for text in texts]


def _slug(heading: str) -> str:
    return "-".join(re.findall(r"\w+", heading.lower()))


def of_slides(repository: Path, lessons: list[Lesson]) -> list[Wanted]:
    """Return slide sentences by lesson and cell, and each guess and timetable text once."""
    found = [*_of_sentences(repository), *_of_plans(repository)]
    for lesson in lessons:
        asking = [cell for cell in lesson.cells if "exercise" not in cell.tags]
        place = str(lesson.path.relative_to(repository))
        gaps = (with_gaps(cell.text, place) for cell in asking if cell.kind == "code")
        found += [
            Wanted(words, guess_of(words), place) for gap in gaps for words in guesses_in(gap)
        ]
    return list({(one.cell, one.english): one for one in reversed(found)}.values())[::-1]


def _of_sentences(repository: Path) -> Iterator[Wanted]:
    for number, told in _table(repository, "slides.toml").items():
        for cell, said in told.items():
            text = said.get("title", "") if isinstance(said, dict) else said
            text = ", ".join(text) if isinstance(text, list) else text
            if text:
                yield Wanted(text, at_slide(number, cell), "lessons/slides.toml")


def _of_plans(repository: Path) -> Iterator[Wanted]:
    for plan in _table(repository, "timetables.toml").get("timetable", []):
        others = (item for day in plan["days"] for item in day["plan"] if " " in item)
        for words in (plan["name"], plan["words"], *(item.partition(" ")[2] for item in others)):
            yield Wanted(words, plan_of(words), "lessons/timetables.toml")


def _table(repository: Path, name: str) -> dict[str, Any]:
    file = repository / "lessons" / name
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def at_slide(number: str, cell: str) -> str:
    return f"{number} {cell}"


def guess_of(words: str) -> str:
    return f"guess: {words}"


def plan_of(words: str) -> str:
    return f"timetable: {words}"


def everything(repository: Path) -> dict[str, list[Wanted]]:
    """Return the messages of each catalog: of a lesson, README, LIBRARY, SLIDES or PICTURES."""
    lessons = [read_lesson(path) for path in lessons_in(repository / "lessons", "py")]
    library = of_library(repository)
    known = {wanted.english for wanted in library}
    found = {
        lesson.name: [
            wanted
            for wanted in of_lesson(lesson, repository)
            if wanted.cell or wanted.english not in known
        ]
        for lesson in lessons
    }
    others = {
        README: of_readme(repository),
        SLIDES: of_slides(repository, lessons),
        PICTURES: of_pictures(repository),
    }
    return {**found, LIBRARY: library, **{name: there for name, there in others.items() if there}}
