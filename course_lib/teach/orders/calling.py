"""Calls a learner's function as the lesson does, or as its parameters ask for."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class EndedError(Exception):
    """It would have ended the notebook: `exit()` in a function."""


def called(function: Callable[..., Any], **given: Any) -> Any:
    """By place; by name where the parameters have these names in another order, or only names."""
    with kept_alive():
        by_name = _by_name(function, set(given))
        return function(**given) if by_name else function(*given.values())


@contextlib.contextmanager
def kept_alive() -> Iterator[None]:
    """Around what calls a learner's function, also a generator, which begins when it is asked."""
    try:
        yield
    except SystemExit:
        raise EndedError("it ends the program; return a result instead") from None


def _by_name(function: Callable[..., Any], names: set[str]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some builtins tell nothing of themselves
        return False
    asked = [one for one in parameters if one.kind not in OPEN]
    if any(one.kind is inspect.Parameter.POSITIONAL_ONLY for one in asked):
        return False
    required = {one.name for one in asked if one.default is inspect.Parameter.empty}
    return required <= names <= {one.name for one in asked} and bool(required)
