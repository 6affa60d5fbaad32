"""One lesson as a page: its text from `lessons/`, what its cells showed from a notebook that ran.

A learner's gaps are shown as gaps; below them the answer is folded, with what it showed. Outputs
are taken only for cells that are still what was run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from course_lib.lab.jupyter.export import (
    saved_widgets,
    say_in_place_of_widgets,
    with_drawn_formulas,
)
from course_lib.lab.recorded import paths
from course_lib.teach.book import origin
from course_lib.teach.building.build import NOTEBOOK_METADATA, PRINTS
from course_lib.teach.building.gaps import answered, with_gaps
from course_lib.teach.building.source import Cell, Lesson
from course_lib.words import ENGLISH, spoken, told

PICTURES = re.compile(r"\]\((?:\.\./)+images/")
GUESS = re.compile(r"^guess\w* = ", re.MULTILINE)
ANSWER, GUESSED, START = spoken("Answer", "The guess of this run", "Run it yourself")


@dataclass(frozen=True)
class Piece:
    """A cell of the page; those that follow each other under the same `fold` are folded as one."""

    cell: Any
    fold: str = ""


@dataclass(frozen=True)
class Links:
    """`open_at`: the address of a notebook in JupyterLab or on a hub, with `{notebook}` in it."""

    open_at: str = ""

    def html(self, name: str, language: str) -> str:
        notebook = f"{name}.ipynb"
        gaps = told("Notebook with gaps", language)
        links = [f'<a href="notebooks/{notebook}" download>{gaps}</a>']
        if self.open_at:
            where = "JupyterHub" if "/hub/" in self.open_at else "JupyterLab"
            address = escape(self.open_at.replace("{notebook}", notebook))
            links.insert(0, f'<a href="{address}">{told(f"Open in {where}", language)}</a>')
        return " · ".join(links)


def make(
    lesson: Lesson,
    ran: Any | None,
    links: Links,
    folders: Mapping[str, str],
    language: str = ENGLISH,
) -> Any:
    """The notebook that becomes the page; `ran` as `course run` left it, in those folders. The
    lesson is in that language already."""
    shown = Shown(ran, folders)
    pieces = [piece for cell in lesson.cells for piece in _pieces(lesson, cell, shown)]
    cells = list(_with_folds(pieces, language))
    _put_below_title(cells, lesson, shown, links, language)
    page = new_notebook(cells=cells)
    page.metadata["kernelspec"] = NOTEBOOK_METADATA["kernelspec"]
    page.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    return page


class Shown:
    """What the cells of an executed notebook showed, by their ids."""

    def __init__(self, ran: Any | None, folders: Mapping[str, str]):
        cells = ran.cells if ran else []
        self._cells = {cell.id: cell for cell in cells if cell.cell_type == "code"}
        self.origin = origin.read(ran) if ran else None
        self.is_there = ran is not None
        self.changed: list[str] = []
        """Cells that are no longer what was run."""
        saved = saved_widgets(ran) if ran else {}
        for cell in self._cells.values():
            say_in_place_of_widgets(cell, saved)
            paths.hide(cell.outputs, folders)

    def outputs(self, identifier: str, source: str) -> list[Any]:
        if not self.is_there:
            return []
        cell = self._cells.get(identifier)
        if cell is None or cell.source != source:
            self.changed.append(identifier)
            return []
        return [nbformat.from_dict(output) for output in cell.outputs]


def _pieces(lesson: Lesson, cell: Cell, shown: Shown) -> Iterator[Piece]:
    where = f"{lesson.path}:{cell.line}"
    fold = ANSWER if "solution" in cell.tags else ""
    if cell.kind == "markdown":
        text = with_drawn_formulas(PICTURES.sub("](images/", cell.text))
        yield Piece(new_markdown_cell(text, id=cell.id), fold)
        return
    learner, answer = (as_source(way(cell.text, where)) for way in (with_gaps, answered))
    if learner != answer:
        yield Piece(new_code_cell(learner, id=f"{cell.id[:60]}-gap"))
        fold = GUESSED if GUESS.search(learner) else ANSWER
    outputs = [] if "exercise-only" in cell.tags else shown.outputs(cell.id, answer)
    yield Piece(new_code_cell(answer, id=cell.id, outputs=outputs), fold)


def as_source(text: str) -> str:
    """As `course build` writes it: without the lines that it prints."""
    lines = text.split("\n")
    told = [line for line in lines if not line.startswith(PRINTS)]
    return "\n".join(told).rstrip("\n") if len(told) < len(lines) else text


def _with_folds(pieces: list[Piece], language: str) -> Iterator[Any]:
    for fold, group in groupby(pieces, key=lambda piece: piece.fold):
        if fold:
            summary = f'<details class="answer"><summary>{told(fold, language)}</summary>'
            yield new_markdown_cell(summary)
        yield from (piece.cell for piece in group)
        if fold:
            yield new_markdown_cell("</details>")


def _put_below_title(
    cells: list[Any], lesson: Lesson, shown: Shown, links: Links, language: str
) -> None:
    said = _of_the_results(shown, language)
    note = f'<p class="of-this-page">{said}<br>{links.html(lesson.name, language)}</p>'
    title = f"# {lesson.title}\n"
    for cell in cells:
        if cell.cell_type == "markdown" and title in cell.source:
            cell.source = cell.source.replace(title, f"{title}\n{note}\n", 1)
            return


def _of_the_results(shown: Shown, language: str) -> str:
    """HTML."""
    if shown.origin:
        measured = told("Numbers and figures of this page", language)
        said = f"{measured}: {escape(shown.origin.words(language))}."
    elif shown.is_there:
        said = told(
            "Where and when the numbers of this page were measured, its run did not say.", language
        )
    else:
        said = told("This lesson was not run for this book: its cells show no results.", language)
    if not shown.changed:
        return said
    count = len(shown.changed)
    changed = told(f"{count} of its cells have changed since and show no results.", language)
    return f"{said} {changed}"
