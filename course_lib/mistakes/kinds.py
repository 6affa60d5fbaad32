"""Types of values in words: the type that a parameter takes, and the value it was given."""

from __future__ import annotations

import os
import re
import types
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

from course_lib.words import N_, _

SHOWN, LONG = 50, 500


def is_truth_value(value: Any) -> bool:
    """Return whether it is a bool of Python or numpy. Comparing names avoids loading numpy."""
    return type(value).__name__ in ("bool", "bool_")


def _is_number(value: Any, kind: Any) -> bool:
    """Return whether it is a number, or holds one, such as a column with one element."""
    if isinstance(value, bool):
        return False
    return isinstance(value, kind) or callable(getattr(value, "item", None))


def _is_several(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


# Type name in annotations -> its words, and a test for values of the type.
PLAIN_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "str": (N_("a text in quotation marks"), lambda value: isinstance(value, str)),
    "int": (N_("a whole number"), lambda value: _is_number(value, Integral)),
    "float": ("a number", lambda value: _is_number(value, (Real, Decimal))),
    "bool": (N_("True or False"), is_truth_value),
    "Path": ("a path", lambda value: isinstance(value, os.PathLike)),
    "None": ("None", lambda value: value is None),
    "tuple": ("a list", lambda value: isinstance(value, list | tuple)),
    "list": ("a list", lambda value: isinstance(value, list | tuple)),
    "Iterable": ("a list", _is_several),
    "Sequence": ("a list", _is_several),
    "Mapping": (N_("a dict {name: value}"), lambda value: isinstance(value, Mapping)),
    "dict": (N_("a dict {name: value}"), lambda value: isinstance(value, dict)),
}
# The calls that make or find a value of a type.
WAYS = {
    "Recipe": N_("shell.recipe(…) or gpt.recipe(…) makes one; the recipe of a run is run.recipe"),
    "Run": N_("lab.submit(recipe) starts one; lab.run(…) finds one by name"),
    "Model": N_("plan.preset(…) finds one by name; gpt.model(run.recipe) is the model of a run"),
    "Layout": N_("plan.Layout(tensor=2) makes one; gpt.layout(run.recipe) is the layout of a run"),
    "Cluster": N_("plan.cluster(…) finds one by name"),
    "Estimate": N_("plan.predict(model, layout, cluster) makes one"),
    "Lab": N_("Lab() makes one"),
}


def kinds_in(annotation: str, scope: Mapping[str, Any]) -> list[str]:
    """Return the type names in an annotation: "str | Sequence[int]" gives str and Sequence.

    An alias of the module is replaced by its types. A type that cannot be checked becomes Any.
    """
    while annotation != (bare := re.sub(r"\[[^\[\]]*\]", "", annotation)):
        annotation = bare
    kinds: list[str] = []
    for name in annotation.split("|"):
        kind = name.strip().rpartition(".")[2]
        meant = scope.get(kind)
        if isinstance(meant, types.UnionType | types.GenericAlias):
            kinds += kinds_in(str(meant), {})
        else:
            kinds.append(kind if meant is None or isinstance(meant, type) else "Any")
    return kinds


def fits(kind: str, value: Any, scope: Mapping[str, Any]) -> bool:
    """Return whether a value may be meant for a parameter of this type."""
    if kind in PLAIN_KINDS:
        return PLAIN_KINDS[kind][1](value)
    if kind in ("Any", "object"):
        return True
    try:
        return isinstance(value, scope[kind])
    except (KeyError, TypeError):  # a protocol, or imported for type checkers only
        return kind in {one.__name__ for one in type(value).__mro__}


def words_for(kinds: list[str]) -> str:
    """Join types in words: `a Recipe`, `a text in quotation marks or a path`. Leave out gaps."""
    found = [
        PLAIN_KINDS[kind][0] if kind in PLAIN_KINDS else _with_article(kind)
        for kind in kinds
        if kind != "Unfinished"
    ]
    return " or ".join(dict.fromkeys(found))


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def what_it_is(value: Any) -> str:
    """Describe a value for an error message."""
    if value is ...:
        return _("..., a gap that you still have to fill in")
    if value is None or isinstance(value, str | int | float | bool | list | tuple | dict):
        text = _short(value)
        return _("the text {value}", value=text) if isinstance(value, str) else text
    if isinstance(value, type):
        return _("the class {name}", name=value.__name__)
    if callable(value):
        name = getattr(value, "__name__", "it")
        return _("the function {name} itself; {name}(…) calls it", name=name)
    if missing := getattr(value, "missing", ()):
        return _("a recipe with gaps ({str})", str=", ".join(map(str, missing)))
    return _with_article(type(value).__name__)


def shown(value: Any) -> str:
    """Return the value as code; a description if that would be long or show a memory address."""
    text = _written(value)
    return what_it_is(value) if text.startswith("<") or len(text) > LONG else text


def _written(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # an int with thousands of digits
        return _("an {name} that is too long to show", name=type(value).__name__)


def _short(value: Any) -> str:
    text = _written(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def way_out(kinds: list[str], value: Any) -> str:
    """Say which call makes a value of these types; empty if none is known."""
    found = next((WAYS[kind] for kind in kinds if kind in WAYS), "")
    if found and value is None:
        return _("a call that only shows something, such as run.watch(), returns None")
    return found
