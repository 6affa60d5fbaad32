"""`course cards`: one page for each lesson, with its commands, functions and main points."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt

import course_lib
from course_lib.lab.commands.common import parser
from course_lib.lab.errors import LabError
from course_lib.lab.lab import Lab
from course_lib.lab.runs.run import Run
from course_lib.lab.workspace import write_atomically
from course_lib.publish.building.gaps import with_gaps
from course_lib.publish.building.source import Cell, Lesson, lessons_in, read_lesson
from course_lib.publish.run import chosen
from course_lib.shipped import SHIPPED

OUT = Path("build") / "cards"
ROW = re.compile(r"^\| *(?P<what>[^|]*?) *\| *(?P<said>.*?) *\|$", re.MULTILINE)
MAGIC = re.compile(r"^\s*[!%].*$", re.MULTILINE)
OWN_VALUE = re.compile(r"\{[^{}]*?(\w+)\}")
PAUSE = re.compile(r"^sleep \d+; *")
TAKE_HOME = "## To take home"
SENTENCE = re.compile(r".+?[.:](?= [A-Z`]|$)", re.DOTALL)
LONGEST_SENTENCE = 150
# Names that every lesson uses.
NOT_ON_A_CARD = {"check", "claim", "predict", "progress", "share_progress", "guesses", "Lab"}
MARKDOWN = MarkdownIt("commonmark", {"html": False})
for end in ("link_open", "link_close"):
    MARKDOWN.add_render_rule(end, lambda *_: "")
STYLE = """\
@page { size: A4; margin: 14mm; }
body { font: 10.5pt/1.35 system-ui, sans-serif; max-width: 182mm; margin: 1rem auto; }
h1 { font-size: 1.35rem; margin: 0 0 0.2rem; } h2 { font-size: 1rem; margin: 0.9rem 0 0.2rem; }
p { margin: 0.2rem 0; } ul { margin: 0; padding-left: 1.1rem; } li { margin-bottom: 0.15rem; }
pre { background: #8881; padding: 0.4rem 0.6rem; margin: 0; white-space: pre-wrap; }
code, pre { font: 0.88em/1.4 ui-monospace, monospace; }
h2, li { break-inside: avoid; }
"""


@dataclass(frozen=True)
class Call:
    """Function such as `lab.submit`, and the first sentence of its docstring."""

    name: str
    says: str


@dataclass(frozen=True)
class Card:
    title: str
    goal: str
    facts: str
    commands: tuple[str, ...]
    new: tuple[Call, ...]
    # Functions that an earlier lesson introduced.
    known: tuple[str, ...]
    take_home: tuple[str, ...]


def cards(lessons: Iterable[Lesson]) -> list[tuple[Lesson, Card]]:
    """Return the cards in lesson order. A function is new only in its first lesson."""
    seen: set[str] = set()
    made = []
    for lesson in lessons:
        card = _card(lesson, seen)
        seen |= {call.name for call in card.new}
        made.append((lesson, card))
    return made


def _card(lesson: Lesson, seen: set[str]) -> Card:
    prose = [cell.text for cell in lesson.cells if cell.kind == "markdown"]
    rows = {found["what"]: found["said"] for found in ROW.finditer(prose[0])}
    facts = [f"{name}: {rows[name]}" for name in ("Minutes", "Devices") if name in rows]
    code = [shown_code(cell) for cell in lesson.cells if cell.kind == "code"]
    names = list(dict.fromkeys(name for text in code for name in calls_in(text)))
    return Card(
        title=lesson.title,
        goal=rows.get("You will be able to", ""),
        facts=" · ".join(facts),
        commands=tuple(dict.fromkeys(line for text in code for line in commands_in(text))),
        new=tuple(Call(name, said(name)) for name in names if name not in seen),
        known=tuple(name for name in names if name in seen),
        take_home=tuple(_take_home(prose)),
    )


def shown_code(cell: Cell) -> str:
    """Return the code that every learner sees, without answers and solution cells."""
    return "" if "solution" in cell.tags else with_gaps(cell.text, cell.id)


def commands_in(text: str) -> Iterator[str]:
    """Yield the shell commands of a cell, with the lesson's values replaced by names."""
    lines = text.splitlines()
    if lines and lines[0].startswith("%%bash"):
        found = [line for line in lines[1:] if line.strip() and not line.startswith("#")]
    else:
        found = [line.strip()[1:] for line in lines if line.strip().startswith("!")]
    for line in found:
        yield OWN_VALUE.sub(lambda name: name[1].upper(), PAUSE.sub("", line.strip()))


def calls_in(text: str) -> Iterator[str]:
    """Yield the names `lab.…`, `run.…` and `plan.…` in order of use; skip other names."""
    try:
        tree = ast.parse(MAGIC.sub("", text))
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (name := _named(node)):
            yield name


def _named(node: ast.Attribute) -> str:
    holder = node.value.id if isinstance(node.value, ast.Name) else ""
    if node.attr.isupper():  # a table, not a function
        return ""
    if holder == "lab" and hasattr(Lab, node.attr):
        return f"lab.{node.attr}"
    if holder in set(course_lib.EXPORTS) - NOT_ON_A_CARD:
        return f"{holder}.{node.attr}" if hasattr(getattr(course_lib, holder), node.attr) else ""
    is_of_a_run = node.attr in OF_A_RUN and holder not in ("np", "pd", "torch", "plt", "os", "self")
    return f"run.{node.attr}" if is_of_a_run else ""


AMBIGUOUS = {"name", "state", "text", "key", "pause", "folder", "compare"}
# Attributes that, in the lessons, only runs have.
OF_A_RUN = {name for name in vars(Run) if not name.startswith("_")} - AMBIGUOUS


def said(name: str) -> str:
    """Return the first sentence of an object's docstring."""
    holder, _, attribute = name.partition(".")
    owner = {"lab": Lab, "run": Run}.get(holder) or getattr(course_lib, holder)
    value = inspect.getattr_static(owner, attribute, None)
    if not isinstance(value, property):
        value = getattr(owner, attribute, None)
    text = " ".join((getattr(value, "__doc__", None) or "").split())
    if isinstance(value, type) and text.startswith(f"{value.__name__}("):
        text = ""  # generated docstring of a dataclass
    found = SENTENCE.match(text)
    sentence = (found[0] if found else text).rstrip(":")
    if len(sentence) <= LONGEST_SENTENCE:
        return sentence
    return f"{sentence[:LONGEST_SENTENCE].rpartition(' ')[0]} …"


def _take_home(prose: list[str]) -> list[str]:
    text = next((one for one in prose if TAKE_HOME in one), "")
    points: list[str] = []
    for line in text.partition(TAKE_HOME)[2].splitlines():
        if line.startswith("- "):
            points.append(line[2:].strip())
        elif points and line.startswith("  "):
            points[-1] += f" {line.strip()}"
        elif points:
            break
    return points


def markdown(card: Card) -> str:
    parts = [f"# {card.title}", f"You will be able to {card.goal}." if card.goal else ""]
    parts.append(f"*{card.facts}*" if card.facts else "")
    if card.commands:
        parts += ["## In a terminal", "\n".join(["```bash", *card.commands, "```"])]
    if card.new or card.known:
        lines = [
            f"- `{one.name}` — {one.says}" if one.says else f"- `{one.name}`" for one in card.new
        ]
        parts += ["## In a notebook", "\n".join(lines)]
    if card.known:
        parts.append("Known already: " + ", ".join(f"`{name}`" for name in card.known))
    if card.take_home:
        parts += ["## To take home", "\n".join(f"- {point}" for point in card.take_home)]
    return "\n\n".join(filter(None, parts)) + "\n"


def html(card: Card) -> str:
    head = f'<meta charset="utf-8"><title>{escape(card.title)}</title><style>{STYLE}</style>'
    body = MARKDOWN.render(markdown(card))
    return f'<!doctype html>\n<html lang="en">\n{head}\n{body}</html>\n'


def main(argv: list[str]) -> int:
    options = parser(
        "cards",
        "Makes a card of one page for each lesson, as Markdown and as HTML for printing. A card\n"
        "lists the lesson's commands, functions and results to remember, and no answers.",
    )
    options.add_argument("lessons", nargs="*", help="lessons, such as 00 07b; default: all")
    options.add_argument("--out", type=Path, default=OUT, help=f"output folder; default: {OUT}")
    given = options.parse_args(argv)
    folder = SHIPPED / "lessons"
    every = lessons_in(folder, "py")
    if not every:
        raise LabError("there is no lessons/ here; `course cards` works in a clone only")
    wanted = chosen(folder, given.lessons, "py")
    made = 0
    for lesson, card in cards(read_lesson(path) for path in every):
        if lesson.path in wanted:
            made += 1
            write_atomically(given.out / f"{lesson.name}.md", markdown(card))
            write_atomically(given.out / f"{lesson.name}.html", html(card))
    print(f"{made} cards in {given.out}, as .md and as .html")
    return 0
