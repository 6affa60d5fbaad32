"""Functions of the programs as they stand, so that what a lesson shows is what its jobs run."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from course_lib.lab.errors import LabError, listed
from course_lib.lab.job.script import coloured
from course_lib.mistakes.names import answers_misspelt

Definition = ast.FunctionDef | ast.ClassDef


@answers_misspelt
@dataclass(frozen=True)
class Excerpt:
    """Some functions of one program file. In a notebook it shows itself with its colours."""

    file: str
    text: str

    def __str__(self) -> str:
        return self.text

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        printer.text(self.text)  # type: ignore[attr-defined]

    def _repr_html_(self) -> str:
        return coloured(self.text, "python")


def excerpt(programs: Path, file: str, names: tuple[str, ...]) -> Excerpt:
    """The functions `names` ("Loader.micro_batch" is one of a class), each as it is written."""
    path = programs / file
    if not path.is_file():
        raise LabError(f"there is no program {file} in {programs}")
    source = path.read_text(encoding="utf-8")
    known = _definitions(ast.parse(source))
    if strange := [name for name in names if name not in known]:
        raise LabError(f"{file} has no {listed(strange)}; it has {', '.join(known)}")
    parts = [_lines(source, known[name]) for name in names]
    return Excerpt(file, "\n\n".join([f"# code/{file}", *parts]))


def _definitions(tree: ast.Module | ast.ClassDef, of: str = "") -> dict[str, Definition]:
    found: dict[str, Definition] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[of + node.name] = node
        if isinstance(node, ast.ClassDef):
            found |= _definitions(node, f"{of}{node.name}.")
    return found


def _lines(source: str, node: Definition) -> str:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return dedent("\n".join(source.splitlines()[first - 1 : node.end_lineno]))
