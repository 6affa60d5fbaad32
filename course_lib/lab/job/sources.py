"""Which version of a program a run used: a digest of its file and of those it imports."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.site import Site

NO_FILES: Mapping[str, bytes] = MappingProxyType({})


def digest(recipe: Recipe, site: Site, own: Mapping[str, bytes] = NO_FILES) -> str:
    """Empty where there is no file to look at (shell commands, a program on the PATH). `own`: files
    that the run takes along, by name."""
    path = Path(recipe.program)
    if site.programs and "/" not in recipe.program:
        path = Path(site.programs) / recipe.program
    if not recipe.program or not path.is_file():
        return ""
    total = hashlib.sha256()
    for name, content in sorted(own.items()):
        total.update(name.encode(errors="surrogateescape") + b"\0" + content)
    for file in sorted(closure(path)):
        total.update(file.name.encode() + b"\0" + file.read_bytes())
    return total.hexdigest()


def closure(program: Path) -> set[Path]:
    """The file and those beside it that it imports, and that these import."""
    found: set[Path] = set()
    waiting = [program]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found.add(file)
        for name in _imported(file.read_bytes()):
            beside = program.parent.joinpath(*name.split("."))
            candidates = (beside.with_suffix(".py"), beside / "__init__.py")
            waiting += [path for path in candidates if path.is_file()]
    return found


@lru_cache(maxsize=512)  # a lesson submits ten jobs of one program
def _imported(source: bytes) -> frozenset[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return frozenset()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)
