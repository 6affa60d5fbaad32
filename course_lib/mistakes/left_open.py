"""Names that a cell would have defined if an error had not stopped it. If a cell waits for a guess,
all later cells fail with unknown names, and Python cannot say why. If such a name exists, it holds
the result of an earlier run of the cell. A check must not judge that old result as the newest
attempt.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from course_lib.mistakes.errors import CourseError
from course_lib.words import _

# Name -> first line of the error that stopped its cell.
LEFT: dict[str, str] = {}


@dataclass
class RunningCell:
    """Cell that is running, and the ids of all objects when it began."""

    source: str = ""
    before: dict[str, int] = field(default_factory=dict)


RUNNING = RunningCell()


def begin(info: Any, names: Mapping[str, Any]) -> None:
    RUNNING.source = info.transformed_cell or info.raw_cell
    RUNNING.before = {name: id(value) for name, value in names.items()}


def end(result: Any, names: Mapping[str, Any]) -> None:
    """Mark the names of a stopped cell as left open, except those it had already defined."""
    error = result.error_before_exec or result.error_in_exec
    for name in names_in(RUNNING.source):
        is_made = name in names and id(names[name]) != RUNNING.before.get(name)
        if error is None or is_made:
            LEFT.pop(name, None)
        else:
            LEFT[name] = _why(error)


def _why(error: BaseException) -> str:
    if isinstance(error, NameError) and error.name in LEFT:
        return LEFT[error.name]
    text = str(error) if isinstance(error, CourseError) else f"{type(error).__name__}: {error}"
    return text.partition("\n")[0].rstrip(".")


def names_in(source: str) -> set[str]:
    """Return the names that a cell defines at its top level, by its lines if it is not Python."""
    try:
        statements = ast.parse(source).body
    except (SyntaxError, ValueError):
        return set(re.findall(r"^(\w+) *=(?!=)", source, re.M))
    names: set[str] = set()
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            names |= {(one.asname or one.name).partition(".")[0] for one in statement.names}
        else:
            names |= {
                one.id
                for one in ast.walk(statement)
                if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
            }
    return names


def why_missing(name: str) -> str:
    """Explain a missing name; empty if no stopped cell would have defined it."""
    if name not in LEFT:
        return ""
    return _(
        "{name} does not exist yet, because the cell that makes it stopped before ({left}). "
        "Correct that cell and run it. Then run this cell again.",
        name=name,
        left=LEFT[name],
    )


def refuse_missing(command: str, names: Mapping[str, Any]) -> None:
    """Raise an error if a `!` line contains a `{name}` that a stopped cell would have defined."""
    for name in re.findall(r"{(\w+)", command):
        if name in LEFT and name not in names:
            raise NameError(why_missing(name), name=name)


class OutdatedError(CourseError):
    """Error: the result to be judged is not from the last run of its cell."""


def refuse_outdated() -> None:
    """Raise an error if the running cell reads a name whose cell was stopped in its last run."""
    nodes, made = ast.walk(ast.parse(RUNNING.source)), names_in(RUNNING.source)
    read = (node.id for node in nodes if isinstance(node, ast.Name) and node.id not in made)
    name = next((one for one in read if one in LEFT), "")
    if not name:
        return
    text = _(
        "{name} is out of date, because the last run of its cell stopped before ({left}). "
        "Correct that cell and run it. Then run this cell again.",
        name=name,
        left=LEFT[name],
    )
    raise OutdatedError(text)
