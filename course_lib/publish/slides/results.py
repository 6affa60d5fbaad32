"""Outputs of a cell, prepared for a slide.

No HTML is copied. Pictures are copied as data, tables cell by cell, and everything else as text.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

from course_lib.publish.slides.marks import column_name
from course_lib.show import moving
from course_lib.show.moving import Story
from course_lib.show.moving.frame_svg import image

PNG = re.compile(r"[A-Za-z0-9+/=\s]+")
MOVING = "data-lm-suppress-shortcuts"
MOVES = re.compile(r"\bshow\.moving\.\w+\([^()]*\)")
# HTML of a table by pandas, plain or styled.
TABLE = re.compile(r'<table[^>]* class="dataframe"|<table id="T_')
CLAIM = re.compile(
    r"^(?P<sign>[✓✗]) [^:]*: (?P<text>.*) "
    r"\((?P<value>(?:[^();]|\([^()]*\))*?)[;.] [^:()]*: (?P<bounds>[^()]*)\)$"
)


@dataclass(frozen=True)
class Measured:
    """Claim of a lesson, with its measured value."""

    text: str
    value: str = ""
    bounds: str = ""
    holds: bool = True
    # True for a number, even if it is 0 or 1.
    is_count: bool = False


def figures(outputs: Iterable[Any]) -> list[tuple[str, str]]:
    """Return the `data:` address and alternative text of each still picture."""
    found = []
    for output in outputs:
        data = output.get("data", {})
        png = data.get("image/png", "")
        if not isinstance(png, str) or not PNG.fullmatch(png) or _moves(data):
            continue
        address = f"data:image/png;base64,{''.join(png.split())}"
        found.append((address, str(data.get("text/plain", ""))))
    return found


def stories(source: str) -> list[Story]:
    """Draw the moving diagrams of a cell from its call. They need no run.

    A call whose arguments are not literals is skipped.
    """
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
    """Return picture, title and text of each frame, as HTML."""
    words = [(frame.title, frame.text) for frame in story.frames]
    return [
        (image(frame.scene, text), escape(title), escape(text))
        for frame, (title, text) in zip(story.frames, words, strict=True)
    ]


def _moves(data: Any) -> bool:
    html = data.get("text/html", "")
    return isinstance(html, str) and MOVING in html


def printed(outputs: Iterable[Any]) -> str:
    """Return the standard output as text."""
    texts = [one.get("text", "") for one in outputs if one.get("output_type") == "stream"]
    return "\n".join("".join(map(str, texts)).splitlines()).strip("\n")


def listing(outputs: Iterable[Any]) -> str:
    """Return the program or script that a cell displays; empty if none."""
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
    """Return the first pandas table: cells as text, headings first."""
    from bs4 import BeautifulSoup

    for output in outputs:
        html = output.get("data", {}).get("text/html", "")
        if isinstance(html, str) and TABLE.search(html):
            rows = BeautifulSoup(html, "html.parser").find_all("tr")
            return _joined([row.find_all(["td", "th"]) for row in rows])
    return []


def _joined(found: list[Any]) -> list[list[str]]:
    """Join the two heading rows that pandas writes if the index has a name."""
    rows = [[cell.get_text(strip=True) for cell in row] for row in found]
    if (
        len(rows) > 1
        and all(cell.name == "th" for cell in found[1])
        and len(rows[0]) == len(rows[1])
    ):
        head = [_both(one, other) for one, other in zip(*rows[:2], strict=True)]
        rows = [head, *rows[2:]]
    widest = max(map(len, rows), default=0)
    return [[*row, *[""] * (widest - len(row))] for row in rows]


def _both(columns: str, rows: str) -> str:
    """Label the corner of a table with the names of its columns and rows."""
    if not (columns and rows):
        return columns or rows
    return f"{column_name(rows)} ↓ {column_name(columns)} →"
