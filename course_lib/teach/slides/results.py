"""What a cell showed, as it may stand on a slide. Nothing of an output is taken over as HTML:
pictures by their data, tables cell by cell, the rest as text."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from html.parser import HTMLParser
from typing import Any

from course_lib.show import moving
from course_lib.show.moving import Story
from course_lib.show.moving.frame_svg import image
from course_lib.words import told

PNG = re.compile(r"[A-Za-z0-9+/=\s]+")
MOVING = "data-lm-suppress-shortcuts"
NOTHING_RUNS = re.compile(r"[\w-]+: nothing runs here: the runs of this lab were recorded")
MOVES = re.compile(r"\bshow\.moving\.\w+\([^()]*\)")
TABLE = re.compile(r'<table[^>]* class="dataframe"|<table id="T_')
"""Of pandas, or one of its own in a style."""
CLAIM = re.compile(
    r"^(?P<sign>[✓✗]) [^:]*: (?P<text>.*) "
    r"\((?P<value>(?:[^();]|\([^()]*\))*?)[;.] [^:()]*: (?P<bounds>[^()]*)\)$"
)


@dataclass(frozen=True)
class Figure:
    source: str
    """An address of the kind `data:`."""
    alt: str

    def html(self) -> str:
        return f'<img src="{self.source}" alt="{escape(self.alt)}">'


@dataclass(frozen=True)
class Measured:
    """A claim of a lesson, with what was measured where it ran."""

    text: str
    value: str = ""
    bounds: str = ""
    holds: bool = True
    is_count: bool = False
    """A number, also where it is 0 or 1."""


def figures(outputs: Iterable[Any]) -> list[Figure]:
    """Pictures that do not move."""
    found = []
    for output in outputs:
        data = output.get("data", {})
        png = data.get("image/png", "")
        if not isinstance(png, str) or not PNG.fullmatch(png) or _moves(data):
            continue
        address = f"data:image/png;base64,{''.join(png.split())}"
        found.append(Figure(address, str(data.get("text/plain", ""))))
    return found


def stories(source: str) -> list[Story]:
    """The moving diagrams that a cell shows. They need no run: they are drawn here, from the call,
    where its arguments stand in it."""
    found = []
    for call in MOVES.findall(source):
        tree = ast.parse(call, mode="eval").body
        assert isinstance(tree, ast.Call)
        assert isinstance(tree.func, ast.Attribute)
        with contextlib.suppress(ValueError):
            given = [ast.literal_eval(value) for value in tree.args]
            named = {word.arg or "": ast.literal_eval(word.value) for word in tree.keywords}
            found.append(getattr(moving, tree.func.attr)(*given, **named))
    return found


def frames(story: Story) -> list[tuple[str, str, str]]:
    """Of each frame picture, title and text, as HTML."""
    words = [(told(frame.title), told(frame.text)) for frame in story.frames]
    return [
        (image(frame.scene, text), escape(title), escape(text))
        for frame, (title, text) in zip(story.frames, words, strict=True)
    ]


def _moves(data: Any) -> bool:
    html = data.get("text/html", "")
    return isinstance(html, str) and MOVING in html


def printed(outputs: Iterable[Any]) -> str:
    """Standard output, as text; not what a cluster's commands say where recorded runs stand in."""
    texts = [
        str(output.get("text", "")) for output in outputs if output.get("output_type") == "stream"
    ]
    lines = "".join(texts).splitlines()
    return "\n".join(line for line in lines if not NOTHING_RUNS.match(line)).strip("\n")


def are_refused(outputs: Iterable[Any]) -> bool:
    """Commands of a cluster, where recorded runs stand in."""
    texts = [str(output.get("text", "")) for output in outputs]
    return any(map(NOTHING_RUNS.match, "".join(texts).splitlines()))


def listing(outputs: Iterable[Any]) -> str:
    """Lines of a program or a script that a cell ended with."""
    for output in outputs:
        data = output.get("data", {})
        if 'class="highlight"' in str(data.get("text/html", "")):
            return str(data.get("text/plain", ""))
    return ""


def measured(outputs: Iterable[Any]) -> list[Measured]:
    found = [CLAIM.match(line) for line in printed(outputs).splitlines()]
    return [
        Measured(
            match["text"],
            match["value"],
            match["bounds"].removeprefix("it "),
            match["sign"] == "✓",
        )
        for match in found
        if match
    ]


def table(outputs: Iterable[Any]) -> list[list[str]]:
    """The first one of pandas: its cells as text, the head first."""
    for output in outputs:
        html = output.get("data", {}).get("text/html", "")
        if isinstance(html, str) and TABLE.search(html):
            reader = _Cells()
            reader.feed(html)
            return reader.joined()
    return []


class _Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._head = 0
        self._in_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "thead":
            self._head = len(self.rows)
        if tag in ("td", "th"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.rows[-1][-1] += data.strip()

    def joined(self) -> list[list[str]]:
        """pandas gives the name of the index a line of its own in the head."""
        head, body = self.rows[: self._head], self.rows[self._head :]
        if len(head) == 2 and len(head[0]) == len(head[1]):
            head = [[_both(one, other) for one, other in zip(*head, strict=True)]]
        rows = head + body
        widest = max(map(len, rows), default=0)
        return [[*row, *[""] * (widest - len(row))] for row in rows]


def _both(columns: str, rows: str) -> str:
    """In the corner of a table stands what its columns and what its rows are named after."""
    return f"{told(rows)} ↓ {told(columns)} →" if columns and rows else columns or rows
