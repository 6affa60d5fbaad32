"""A recipe keeps the keywords that made it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar

from course_lib.lab.job.recipe import Recipe

Function = TypeVar("Function", bound=Callable[..., Any])


def keeps_keywords(made_by: str) -> Callable[[Function], Function]:
    """Those that were given and are not the default: what one would type to have it again."""

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)

        @wraps(function)
        def make(*args: Any, **named: Any) -> Any:
            named = {name: _listed(value) for name, value in named.items()}
            made = function(*args, **named)
            if not isinstance(made, Recipe):
                return made
            given = dict(signature.bind(*args, **named).arguments)
            given |= given.pop("more", {})
            kept = {
                name: value
                for name, value in given.items()
                if value is not None
                and (name not in signature.parameters or _is_another(value, signature, name))
            }
            return replace(made, made_by=made_by, keywords=kept)

        return make  # type: ignore[return-value]

    return decorate


def _listed(value: Any) -> Any:
    """Several values in a set, an array or a generator, as a list that can be read twice."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    is_row = getattr(value, "ndim", 0) == 1 and len(value) > 1
    return list(value) if isinstance(value, Iterator) or is_row else value


def _is_another(value: Any, signature: inspect.Signature, name: str) -> bool:
    default = signature.parameters[name].default
    return type(value) is not type(default) or bool(value != default)
