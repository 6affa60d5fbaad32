"""Sentences to translate: those marked in the library, and labels in a lesson's code cells."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

MARKERS = ("_", "N_")
# At least two words.
WORDS = re.compile(r"[A-Za-z]{2,}\W*\s+\W*[A-Za-z(]")
LETTERS = re.compile("[A-Za-z]{2,}")
# Queries of tables, shell commands and regular expressions in a lesson's cells.
NO_LABEL = re.compile(r"[=$|\n]|\\|^[ \[]|^echo |^[a-z]+(?:_[a-z0-9]+)+$|Error:")
# Calls whose labels are often a single word.
LABELLED = re.compile(r"claim|predict|show\.\w+")


def marked_in(source: str) -> list[str]:
    """Return the arguments of `_(…)` and `N_(…)` in source order, even within f-strings."""
    calls = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in MARKERS
        and node.args
    ]
    calls.sort(key=lambda call: (call.lineno, call.col_offset))
    texts = [call.args[0] for call in calls]
    return list(dict.fromkeys(text.value for text in texts if _is_text(text)))  # type: ignore[attr-defined]


def labels_in(source: str) -> list[str]:
    """Return the texts that a figure or sentence may show: several words, or a label."""
    return list(dict.fromkeys(_labels(ast.parse(source), is_label=False)))


def _labels(node: ast.AST, *, is_label: bool) -> Iterator[str]:
    if isinstance(node, ast.Constant):
        text, form = str(node.value), LETTERS if is_label else WORDS
        if _is_text(node) and form.search(text) and not NO_LABEL.search(text):
            yield text
    elif isinstance(node, ast.JoinedStr):  # a label may follow a name: f"{name}: planned peak"
        texts = (str(part.value) for part in node.values if isinstance(part, ast.Constant))
        yield from (text[2:] for text in texts if is_label and text.startswith(": "))
    elif isinstance(node, ast.Compare) or _is_docstring(node):
        return
    elif isinstance(node, ast.Subscript):  # `runs["on the GPU"] = …` may name a curve
        if isinstance(node.ctx, ast.Store):
            yield from _labels(node.slice, is_label=False)
    elif isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        is_label = bool(LABELLED.fullmatch(name))
        for inner in [] if name == "print" else [node.func, *node.args, *node.keywords]:
            yield from _labels(inner, is_label=is_label)
    else:
        for inner in ast.iter_child_nodes(node):
            yield from _labels(inner, is_label=is_label)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
