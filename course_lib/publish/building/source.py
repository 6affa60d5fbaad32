"""Read a lesson: `# %%` cells (the percent format), their tags, and which of them are hidden.

A cell begins with a line such as

    # %% [markdown] id="ring" tags=["solution"]

The id is explicit, so that a cell keeps it when its text changes. Markdown cells are comments.
In code cells, a line `# !squeue` or `# %%bash` stands for the notebook's `!squeue` or `%%bash`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

from course_lib.lab.errors import LabError

CELL_LINE = re.compile(r"^# %%(?P<rest>$| .*$)")
ATTRIBUTE = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\[[^\]]*\])')
VALID_ID = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
# Name of a lesson's file. The second half of a divided lesson adds a letter: 07, 07b.
NAMED = re.compile(r"(?P<number>\d\d[a-z]?)_\w+")
COMMENTED_MAGIC = re.compile(r"^(\s*)# ([!%].*)$")


class LessonError(LabError, ValueError):
    """Error in a lesson's source; the message names file and line."""


# Tags of cells whose source is folded: their output matters, their code is not part of the lesson.
FOLDED_TAGS = {"claim", "plumbing"}
# Tag of the claims and the explanation that JupyterLab hides until their guess was compared.
AFTER_GUESS = "after-guess"


@dataclass(frozen=True)
class Cell:
    id: str
    # `markdown` or `code`
    kind: str
    tags: tuple[str, ...]
    text: str
    line: int

    @property
    def is_folded(self) -> bool:
        """Tell whether readers see only the output of a cell, until they unfold its source."""
        return bool(FOLDED_TAGS & set(self.tags))


@dataclass(frozen=True)
class Lesson:
    path: Path
    cells: tuple[Cell, ...]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def title(self) -> str:
        for cell in self.cells:
            for line in cell.text.splitlines():
                if cell.kind == "markdown" and line.startswith("# "):
                    return line[2:].strip()
        raise LessonError(f"{self.path}: no markdown cell has a title line '# …'")


def lessons_in(folder: Path, ending: str) -> list[Path]:
    """Return the lessons' files in reading order."""
    return sorted(path for path in folder.glob(f"*.{ending}") if NAMED.fullmatch(path.stem))


def number_of(path: Path) -> str:
    found = NAMED.fullmatch(path.stem)
    return found["number"] if found else ""


def read_lesson(path: Path) -> Lesson:
    cells: list[Cell] = []
    seen: dict[str, int] = {}
    is_compared = False
    for line_number, header, body in _blocks(path):
        cell = _cell(path, line_number, header, body)
        if cell.id in seen:
            raise LessonError(
                f"{path}:{line_number}: id {cell.id!r} is already the cell of line {seen[cell.id]}"
            )
        seen[cell.id] = line_number
        is_end = "**Explain.**" in cell.text
        if is_compared and (is_end or "claim" in cell.tags):
            cell = replace(cell, tags=(*cell.tags, AFTER_GUESS))
        cells.append(cell)
        is_end = is_end or "**Predict.**" in cell.text
        is_compared = not is_end and (is_compared or ".compare(" in cell.text)
    return Lesson(path, tuple(cells))


def _blocks(path: Path) -> list[tuple[int, str, list[str]]]:
    blocks: list[tuple[int, str, list[str]]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        header = CELL_LINE.match(line)
        if header:
            blocks.append((number, header["rest"].strip(), []))
        elif blocks:
            blocks[-1][2].append(line)
    return blocks


def _cell(path: Path, line_number: int, header: str, body: list[str]) -> Cell:
    is_markdown = header.startswith("[markdown]")
    attributes = {name: json.loads(value) for name, value in ATTRIBUTE.findall(header)}
    identifier = attributes.pop("id", None)
    tags = tuple(attributes.pop("tags", ()))
    where = f"{path}:{line_number}"
    if not isinstance(identifier, str) or not VALID_ID.match(identifier):
        raise LessonError(f'{where}: a cell needs id="…" of letters, digits, - and _')
    if attributes:
        raise LessonError(f"{where}: unknown cell attribute {', '.join(attributes)}")
    text = _markdown(where, body) if is_markdown else _code(body)
    return Cell(identifier, "markdown" if is_markdown else "code", tags, text, line_number)


def _markdown(where: str, body: list[str]) -> str:
    lines = []
    for offset, line in enumerate(body, start=1):
        if not line.strip():
            lines.append("")
        elif line == "#" or line.startswith("# "):
            lines.append(line[2:])
        else:
            raise LessonError(f"{where}, line {offset} of the cell: markdown without '# '")
    return "\n".join(lines).strip("\n")


def _code(body: list[str]) -> str:
    return "\n".join(COMMENTED_MAGIC.sub(r"\1\2", line) for line in body).strip("\n")
