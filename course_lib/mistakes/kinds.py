"""What kind of value a parameter takes, and what it was given, in words."""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Union, get_args, get_origin

SHOWN = 50
WORDS: dict[Any, str] = {
    str: "a text in quotation marks", int: "a whole number", float: "a number",
    bool: "True or False", Path: "a path", type(None): "None",
}  # fmt: skip
SEVERAL = (tuple, list, Iterable, Sequence)
INSTEAD = {
    ("Recipe", "str"): "shell.recipe(…) or gpt.recipe(…) makes one, lab.run(…) finds a run by name",
    ("Recipe", "Run"): "the recipe of a run is run.recipe",
    ("Recipe", "Script"): "shell.script(…) makes one of a batch script",
    ("Run", "Recipe"): "lab.submit(recipe) makes a run of it",
    ("Run", "str"): "lab.run(…) finds the run of a name",
    ("Model", "str"): "plan.preset(…) finds the model of a name",
    ("Model", "Recipe"): "gpt.model(recipe) is the model of a recipe",
    ("Model", "Run"): "gpt.model(run.recipe) is the model of a run",
    ("Layout", "Recipe"): "gpt.layout(recipe) is the layout of a recipe",
    ("Layout", "Run"): "gpt.layout(run.recipe) is the layout of a run",
    ("Layout", ""): "plan.Layout(tensor=2, …) makes one",
    ("Cluster", ""): "plan.cluster(…) finds the machine of a name",
    ("Estimate", ""): "plan.predict(model, layout, cluster) makes one",
    ("Path", "Run"): "a run has read its own: run.log, run.memory, run.profile …",
    ("Lab", ""): "Lab() makes one",
}  # fmt: skip
"""What leads from what was given (by the name of its class; "" for anything) to what is wanted."""


def fits(wanted: Any, value: Any) -> bool:
    """Whether a value may be meant for a parameter; what cannot be judged here fits."""
    origin = get_origin(wanted) or wanted
    if origin in (Union, types.UnionType):
        return any(fits(one, value) for one in get_args(wanted))
    if wanted is None or origin is type(None):
        return value is None
    if not isinstance(origin, type) or origin in (Any, object):
        return True
    if origin in SEVERAL or origin is tuple:
        return _fits_several(wanted, value)
    if judge := JUDGES.get(origin):
        return judge(value)
    return isinstance(value, origin)


def _fits_several(wanted: Any, value: Any) -> bool:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return False
    if (get_origin(wanted) or wanted) in (tuple, list) and not isinstance(value, list | tuple):
        return False
    inner = [one for one in get_args(wanted) if one is not ...]
    if not inner or not isinstance(value, list | tuple):
        return True
    if len(inner) == 1:
        return all(fits(inner[0], item) for item in value)
    return len(inner) == len(value) and all(map(fits, inner, value))


def _is_number(value: Any, kind: type) -> bool:
    """Python's, numpy's, fractions, and what holds one, such as a column of one element."""
    if isinstance(value, bool):
        return False
    return isinstance(value, kind) or callable(getattr(value, "item", None))


def is_truth_value(value: Any) -> bool:
    """Python's or numpy's, by name: nobody loads numpy to be asked this."""
    return type(value).__name__ in ("bool", "bool_")


JUDGES: dict[type, Callable[[Any], bool]] = {
    str: lambda value: isinstance(value, str),
    int: lambda value: _is_number(value, Integral),
    float: lambda value: _is_number(value, Real) or isinstance(value, Decimal),
    bool: is_truth_value,
    Path: lambda value: isinstance(value, os.PathLike),
}
NUMBERS = (int, float)
UNSAID = ("Unfinished",)
"""Taken as well, and nothing that one would be advised to give."""


def is_of_numbers(wanted: Any) -> bool:
    return any(one in NUMBERS for one in (get_args(wanted) or (wanted,)))


def words_for(wanted: Any) -> str:
    """`a Recipe`, `a text in quotation marks or a path`."""
    found = list(dict.fromkeys(_words(one) for one in _alternatives(wanted)))
    return " or ".join(found)


def _alternatives(wanted: Any) -> list[Any]:
    if get_origin(wanted) in (Union, types.UnionType):
        return [inner for one in get_args(wanted) for inner in _alternatives(one)]
    return [] if getattr(wanted, "__name__", "") in UNSAID else [wanted]


def _words(wanted: Any) -> str:
    origin = get_origin(wanted) or wanted
    if origin in WORDS:
        return WORDS[origin]
    if origin in SEVERAL:
        return _words_for_several(wanted)
    if origin is Mapping or origin is dict:
        return "a dict {name: value}"
    return _with_article(getattr(origin, "__name__", str(origin)))


def _words_for_several(wanted: Any) -> str:
    inner = [one for one in get_args(wanted) if one is not ...]
    if len(inner) > 1:
        return f"{len(inner)} values in brackets"
    return "a list"


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def what_it_is(value: Any) -> str:
    if value is ...:
        return "..., a gap that is still to be filled in"
    if value is None or isinstance(value, str | int | float | bool | list | tuple | dict):
        return f"the text {_short(value)}" if isinstance(value, str) else _short(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if callable(value):
        name = getattr(value, "__name__", "it")
        return f"the function {name} itself; {name}(…) calls it"
    if missing := getattr(value, "missing", ()):
        return f"a recipe with gaps ({', '.join(map(str, missing))})"
    return _with_article(type(value).__name__)


def shown(value: Any) -> str:
    """As one would write it; in words where that would be an address in memory."""
    text = repr(value)
    return what_it_is(value) if text.startswith("<") else text


def is_plain(value: Any) -> bool:
    return (
        value is None
        or value is ...
        or isinstance(value, str | bytes | int | float | bool | list | tuple | dict)
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def way_out(wanted: Any, value: Any) -> str:
    """What would make the one of the other; empty where nobody knows."""
    names = [getattr(get_origin(one) or one, "__name__", "") for one in _alternatives(wanted)]
    if value is None and any(name == known for name in names for known, _ in INSTEAD):
        return "a call that only shows something, such as run.watch(), gives back None"
    given = (type(value).__name__, "")
    found = (INSTEAD.get((name, kind)) for kind in given for name in names)
    return next(filter(None, found), "")
