"""Parts of a code cell that go on a slide."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from course_lib.publish.slides import results, slide_html
from course_lib.publish.slides.prose import as_html
from course_lib.publish.slides.slide import Slide
from course_lib.words import label

FIGURE = re.compile(r"^\s*(?:\w+ = )?show\.(?!guess\b|moving\b)\w+", re.MULTILINE)
LISTING = re.compile(r"^lab\.(code|script)\(", re.MULTILINE)
MAGIC = re.compile(r"^[!%].*$", re.MULTILINE)
MOST_LINES, MOST_PRINTED, MOST_ROWS, MOST_COLUMNS = 30, 16, 9, 8


def drawn(source: str, outputs: list[Any]) -> list[Slide]:
    """Return one slide per picture, without its title. If the cell was not run, a slide says so."""
    if stories := results.stories(source):
        return [
            Slide("", "moving", "", slide_html.moving(results.frames(story))) for story in stories
        ]
    if still := results.figures(outputs):
        if "show.guess(" in source:
            return []
        return [
            Slide(
                "", "figure", "", slide_html.picture(one, alt), [], as_html(alt), is_measured=True
            )
            for one, alt in still
        ]
    if not outputs and (FIGURE.search(source) or LISTING.search(source)):
        return [Slide("", "missing", "", slide_html.missing())]
    return []


def told(
    source: str, outputs: list[Any], wishes: Mapping[str, Any] | None, has_picture: bool
) -> list[Slide]:
    """Return slides of code, a command with its output, or a table.

    A large one needs a sentence in slides.toml. Its `wishes` may give the first line of a listing
    and the number of `lines`.
    """
    listing, printed = results.listing(outputs), results.printed(outputs)
    rows = results.table(outputs)
    is_asked_for = wishes is not None
    most, begins = (wishes or {}).get("lines", MOST_LINES), (wishes or {}).get("begins", "")
    if listing and (is_asked_for or len(listing.splitlines()) <= MOST_LINES):
        return [Slide("", "code", "", slide_html.code(listing, most, begins))]
    is_short = 0 < len(printed.splitlines()) <= MOST_PRINTED
    if source.startswith("!") and (is_asked_for or is_short):
        body = slide_html.terminal(source, printed)
        return [Slide("", "terminal", "", body, is_measured=bool(printed))]
    is_small = rows and len(rows) <= MOST_ROWS and max(map(len, rows)) <= MOST_COLUMNS
    if rows and (is_asked_for or (is_small and not has_picture)):
        return [Slide("", "table", "", slide_html.table(rows), is_measured=True)]
    if is_asked_for:
        below = slide_html.terminal("", printed) if printed else ""
        body = slide_html.code(source, most=MOST_LINES) + below
        return [Slide("", "code", "", body, is_measured=bool(printed))]
    return []


def counts_in(source: str) -> set[str]:
    """Return the texts of claims with their bounds. A bound of 1 is a number and not True."""
    calls = [node for node in ast.walk(ast.parse(MAGIC.sub("", source))) if _is_claim(node)]
    return {
        label(str(call.args[0].value))  # type: ignore[attr-defined]
        for call in calls
        if any(word.arg in ("least", "most") for word in call.keywords)  # type: ignore[attr-defined]
    }


def _is_claim(node: ast.AST) -> bool:
    is_call = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "claim"
    return is_call and isinstance(node.args[0], ast.Constant)  # type: ignore[attr-defined]
