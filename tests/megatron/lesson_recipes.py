"""All recipes of training runs that the lessons make, without running any job.

The statements of a lesson run one by one with a fake lab. Statements that need the results of a
run fail and are skipped; what they would have defined is missing to later ones.
"""

from __future__ import annotations

import ast
import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch


@dataclass
class Asked:
    """A call of `gpt.recipe` in a lesson, and from which line of which lesson."""

    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    places: set[tuple[str, int]] = field(default_factory=set)

    def noting(self, recipe: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any, **named: Any) -> Any:
            frame = sys._getframe(1)
            self.places.add((Path(frame.f_code.co_filename).name, frame.f_lineno))
            self.calls.append((given, named))
            return recipe(*given, **named)

        return noted


def places(lesson: Path) -> Iterator[tuple[str, int]]:
    """Yield the lines of a lesson that call `gpt.recipe`."""
    for node in ast.walk(ast.parse(lesson.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "gpt.recipe":
            yield lesson.name, node.lineno


def run(lesson: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "lesson", "get_ipython": MagicMock()}
    for statement in ast.parse(lesson.read_text()).body:
        code = compile(ast.Module([statement], []), str(lesson), "exec")
        # A learner's own script reads the command line, and ends where it knows no such flag.
        with (
            contextlib.suppress(Exception, SystemExit),
            contextlib.redirect_stdout(io.StringIO()),
            patch.object(sys, "argv", [lesson.name]),
        ):
            exec(code, namespace)
        if "Lab" in namespace:
            namespace["Lab"] = MagicMock
