"""Names that a cell would have made, had it not stopped with an error of the course.

Below a cell that waits for a guess, every cell fails because of a name that does not exist, and
Python cannot say why it does not.
"""

from __future__ import annotations

import ast

LEFT: dict[str, str] = {}
"""Name -> the first line of what stopped its cell."""


def note(source: str, why: str) -> None:
    LEFT.update(dict.fromkeys(names_in(source), why.partition("\n")[0].rstrip(".")))


def names_in(source: str) -> set[str]:
    """What a cell makes at its outer level. A line that only IPython knows hides the cell."""
    try:
        statements = ast.parse(source).body
    except (SyntaxError, ValueError):
        return set()
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
    """Empty where no stopped cell would have made it."""
    if name not in LEFT:
        return ""
    return (
        f"{name} does not exist yet: the cell that makes it stopped before ({LEFT[name]}). "
        "Mend that cell and run it, then this one."
    )
