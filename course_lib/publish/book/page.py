"""One lesson as a page: text from `lessons/`, results from an executed notebook.

A learner's gaps stay gaps. The answer and its output are folded below each gap. A cell shows its
outputs only if its source is unchanged since the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from itertools import groupby
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from course_lib.lab.jupyter.export import with_drawn_formulas, without_widgets
from course_lib.publish.book import origin
from course_lib.publish.building.build import NOTEBOOK_METADATA, PRINTS
from course_lib.publish.building.gaps import answered, with_gaps
from course_lib.publish.building.source import Cell, Lesson
from course_lib.words import ENGLISH, N_, _, speaking

PICTURES = re.compile(r"\]\((?:\.\./)+images/")
GUESS = re.compile(r"^guess\w* = ", re.MULTILINE)
ANSWER, GUESSED, START = (N_("Answer"), N_("The guess of this run"), N_("Run it yourself"))


# Cell of a page, and the summary under which it is folded; "" for a cell that is not. Successive
# cells with the same summary are folded together.
Piece = tuple[Any, str]


def make(lesson: Lesson, ran: Any | None, open_at: str = "", language: str = ENGLISH) -> Any:
    """Return the notebook that becomes the page, in the language of the given lesson.

    `ran` is the notebook that `course run` wrote. `open_at` is the address of a notebook in
    JupyterLab or on a hub, with `{notebook}` for the name of its file.
    """
    shown = Shown(ran)
    pieces = [piece for cell in lesson.cells for piece in _pieces(lesson, cell, shown)]
    with speaking(language):
        cells = list(_with_folds(pieces))
        _put_below_title(cells, lesson, shown, open_at)
    page = new_notebook(cells=cells)
    page.metadata["kernelspec"] = NOTEBOOK_METADATA["kernelspec"]
    page.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    return page


class Shown:
    """Outputs of an executed notebook's cells, by cell id."""

    def __init__(self, ran: Any | None):
        cells = ran.cells if ran else []
        self._cells = {cell.id: cell for cell in cells if cell.cell_type == "code"}
        self.origin = origin.read(ran) if ran else None
        self.is_there = ran is not None
        # Ids of cells whose source has changed since the run.
        self.changed: list[str] = []
        for cell in self._cells.values():
            without_widgets(cell)

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
        yield new_markdown_cell(text, id=cell.id), fold
        return
    learner, answer = (as_source(way(cell.text, where)) for way in (with_gaps, answered))
    if learner != answer:
        yield new_code_cell(learner, id=f"{cell.id[:60]}-gap"), ""
        fold = GUESSED if GUESS.search(learner) else ANSWER
    outputs = [] if "exercise-only" in cell.tags else shown.outputs(cell.id, answer)
    metadata = {"tags": ["hide-input"]} if cell.is_folded else {}
    yield new_code_cell(answer, id=cell.id, outputs=outputs, metadata=metadata), fold


def as_source(text: str) -> str:
    """Return a cell's text as `course build` writes it, without its recorded output lines."""
    lines = text.split("\n")
    told = [line for line in lines if not line.startswith(PRINTS)]
    return "\n".join(told).rstrip("\n") if len(told) < len(lines) else text


def _with_folds(pieces: list[Piece]) -> Iterator[Any]:
    for fold, group in groupby(pieces, key=lambda piece: piece[1]):
        if fold:
            summary = f'<details class="answer"><summary>{fold}</summary>'
            yield new_markdown_cell(summary)
        yield from (cell for cell, _fold in group)
        if fold:
            yield new_markdown_cell("</details>")


def _put_below_title(cells: list[Any], lesson: Lesson, shown: Shown, open_at: str) -> None:
    notebook = f"{lesson.name}.ipynb"
    links = f'<a href="notebooks/{notebook}" download>{_("Notebook with gaps")}</a>'
    if open_at:
        where = "JupyterHub" if "/hub/" in open_at else "JupyterLab"
        address = escape(open_at.replace("{notebook}", notebook))
        links = f'<a href="{address}">{_("Open in {where}", where=where)}</a> · {links}'
    note = f'<p class="of-this-page">{_of_the_results(shown)}<br>{links}</p>'
    title = f"# {lesson.title}\n"
    for cell in cells:
        if cell.cell_type == "markdown" and title in cell.source:
            cell.source = cell.source.replace(title, f"{title}\n{note}\n", 1)
            return


def _of_the_results(shown: Shown) -> str:
    """Return HTML that says where and when the results were measured."""
    if shown.origin:
        measured = _("Numbers and figures of this page")
        said = f"{measured}: {escape(shown.origin.words())}."
    elif shown.is_there:
        said = _("The run did not record where and when the numbers of this page were measured.")
    else:
        said = _("This lesson was not run for this book: its cells show no results.")
    if not shown.changed:
        return said
    count = len(shown.changed)
    changed = _("{count} of its cells have changed since and show no results.", count=count)
    return f"{said} {changed}"
