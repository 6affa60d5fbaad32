"""The sentences of a Python file: its texts of several words, as messages with named places.

`f"The run used {run.recipe.nodes} nodes. " + more` is the message `The run used {nodes} nodes.
{more}`. What joins texts into one is one message, since a learner reads it as one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from course_lib.words.templates import PLACE

WORDS = re.compile(r"[A-Za-z]{2,}\W*\s+\W*[A-Za-z(]|[A-Za-z]{3,} \{|\} [A-Za-z]{3,}")
"""At least two words, or one beside a value."""
PROGRAM = re.compile(
    r"\A#!|(?s:\n.*\$)"
    r"|\A<|(?:fill|style|width)='|\w:\w[\w ]*;"
    r"|\\[sdwb(]|\[[A-Z][a-z]\]|[a-z)?*]\|[A-Za-z(\\]"
)
"""Lines of a script, HTML, CSS, patterns."""
FIELD = re.compile(r"\{(\w*)(?:![rsa])?(?::[^{}]*)?\}")
NOT_SHOWN = {
    "compile", "match", "fullmatch", "search", "findall", "finditer", "sub", "split", "rsplit",
    "startswith", "endswith", "partition", "rpartition", "replace", "removeprefix", "removesuffix",
    "count", "index", "strip", "add_parser", "getLogger", "run", "Popen", "check_output",
    "recipe", "write_text", "date", "strftime", "deprecated", "code", "TypeVar", "cast",
}  # fmt: skip
"""Calls whose texts are patterns, programs and names."""
LETTERS, SPELT_OUT = re.compile("[A-Za-z]{2,}"), re.compile("^'[a-z-]{4,}'$")
OF_DRAWING = {
    "va", "ha", "loc", "fontweight", "weight", "xycoords", "textcoords", "color", "ls", "where",
    "style", "layout", "width_ratios",
}  # fmt: skip
KEYWORDS_SHOWN = {"label", "what", "title", "xlabel", "ylabel", "description"}
SHORT_ARE_SHOWN = {
    "axes", "label", "set_xlabel", "set_ylabel", "set_title", "annotate", "text", "legend",
    "told", "spoken", "suptitle",
}  # fmt: skip
"""Calls whose texts are shown though they may be of one word."""


def sentences_in(source: str) -> dict[str, int]:
    """Message -> line where it first stands."""
    found: dict[str, int] = {}
    for text, line in _texts(ast.parse(source), is_shown=False):
        if not PROGRAM.search(text) and LETTERS.search(PLACE.sub("", text)):
            found.setdefault(text, line)
    return found


def _texts(node: ast.AST, *, is_shown: bool) -> Iterator[tuple[str, int]]:
    if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp) and _is_text(node):
        text = message(node)
        if WORDS.search(text) or (is_shown and LETTERS.search(text)):
            yield text, node.lineno
        for inner in _values(node):
            yield from _texts(inner, is_shown=False)
        return
    if isinstance(node, ast.Call):
        name = _last_name(node.func)
        yield from _texts(node.func, is_shown=False)
        if name not in NOT_SHOWN:
            for given in node.args:
                yield from _texts(given, is_shown=name in SHORT_ARE_SHOWN)
            for named in _names_in_a_figure(node):
                yield from _texts(named, is_shown=True)
            for word in (word for word in node.keywords if word.arg not in OF_DRAWING):
                is_unit = word.arg == "unit" and SPELT_OUT.search(ast.unparse(word.value))
                is_shown = name in SHORT_ARE_SHOWN or word.arg in KEYWORDS_SHOWN or bool(is_unit)
                yield from _texts(word.value, is_shown=is_shown)
        return
    if isinstance(node, ast.Dict):
        is_shown = any(_is_text(value) and WORDS.search(message(value)) for value in node.values)
        for given in [*filter(None, node.keys), *node.values]:
            yield from _texts(given, is_shown=is_shown and given in node.values)
        return
    for child in _children(node):
        yield from _texts(child, is_shown=is_shown and isinstance(node, ast.IfExp))


def _names_in_a_figure(call: ast.Call) -> Iterator[ast.AST]:
    """Keys of what a lesson hands to `show`: names of lines and bars, also those of one word."""
    if ast.unparse(call.func).startswith("show."):
        for given in call.args:
            yield from filter(None, given.keys) if isinstance(given, ast.Dict) else ()


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """All but docstrings, annotations, comparisons and subscripts."""
    if isinstance(node, ast.Compare | ast.Subscript):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            is_docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if isinstance(child, ast.AST) and not is_docstring:
                yield child


def _is_text(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.BinOp):
        joins = isinstance(node.op, ast.Add)
        return joins and (_is_text(node.left) or _is_text(node.right))
    return isinstance(node, ast.JoinedStr)


def message(node: ast.AST) -> str:
    """The text with a place for each value, named after it."""
    text, taken = "", list[str]()
    for piece in _pieces(node):
        if isinstance(piece, str):
            text += FIELD.sub(lambda field: f"{{{_field(field[1], taken)}}}", piece)
        else:
            name = _unique(_name_of(piece), taken)
            taken.append(name)
            text += f"{{{name}}}"
    return text


def _field(name: str, taken: list[str]) -> str:
    """Of a text that `format` fills in. One that is none holds itself: `{run}` for `{run}`."""
    if not name:
        taken.append(_unique("value", taken))
        return taken[-1]
    return name if name[:1].isalpha() else f"value{name}"


def _pieces(node: ast.AST) -> Iterator[str | ast.AST]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        for value in node.values:
            yield from _pieces(value)
    elif isinstance(node, ast.FormattedValue):
        yield from _pieces(node.value) if _is_constant(node.value) else [node.value]
    elif isinstance(node, ast.BinOp) and _is_text(node):
        yield from _pieces(node.left)
        yield from _pieces(node.right)
    else:
        yield node


def _is_constant(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _values(node: ast.AST) -> list[ast.AST]:
    return [piece for piece in _pieces(node) if not isinstance(piece, str)]


def _unique(name: str, taken: list[str]) -> str:
    return next(
        wanted
        for number in range(1, len(taken) + 2)
        if (wanted := f"{name}{number if number > 1 else ''}") not in taken
    )


def _name_of(node: ast.AST) -> str:
    """`nodes` for run.recipe.nodes, `value` where nothing in it has a name."""
    if isinstance(node, ast.Name):
        name = node.id
    elif isinstance(node, ast.Attribute):
        name = node.attr
    elif isinstance(node, ast.Call) and not node.args and isinstance(node.func, ast.Attribute):
        name = node.func.attr
    elif isinstance(node, ast.Call) and node.args:
        name = _name_of(node.args[0])
    elif isinstance(node, ast.BinOp):
        name = _name_of(node.left)
    elif isinstance(node, ast.Subscript):
        name = _name_of(node.value)
    else:
        name = "value"
    return name.strip("_").lower() or "value"


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
