"""Explain wrong calls of the functions that notebooks use, in one sentence.

A function explains its own mistakes best. This module handles the rest: unknown or missing
arguments, and values of a wrong type, which would otherwise fail deep inside the course.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any, TypeVar

from course_lib.mistakes.errors import ArgumentError, CourseError, NoSuchFileError
from course_lib.mistakes.kinds import fits, kinds_in, way_out, what_it_is, words_for
from course_lib.mistakes.names import instead
from course_lib.words import _

Function = TypeVar("Function", bound=Callable[..., Any])
Kind = TypeVar("Kind", bound=type)
NUMBERS = {"int", "float"}
PLAIN = (str, bytes, int, float, list, tuple, dict, type(None), type(...))
AS_OF_PYTHON = (TypeError, AttributeError, LookupError, ValueError, ArithmeticError)


def explained(
    call: str, *, only_failures: bool = False, takes_gaps: bool = False, whatever: bool = False
) -> Callable[[Function], Function]:  # fmt: skip
    """Explain wrong calls of a function that learners know as `call`.

    Its arguments are checked before it runs; numbers that it accepted, after it. With
    `only_failures`, they are checked only after an error, for functions that the course itself
    calls thousands of times. With `takes_gaps`, the function handles `...` itself. With `whatever`,
    errors that no argument explains also become a sentence. Drawings use this, because they accept
    any object that has the right table.
    """

    def decorate(function: Function) -> Function:
        def wrong(
            args: Any, named: Mapping[str, Any], *, numbers: bool = True, gaps: bool = takes_gaps
        ) -> str:
            return next(_misfits(function, call, args, named, gaps, numbers), "")

        @wraps(function)
        def told(*args: Any, **named: Any) -> Any:
            # The function's own sentence about a number is better.
            if not only_failures and (found := wrong(args, named, numbers=False)):
                raise ArgumentError(found)
            try:
                result = function(*args, **named)
                if only_failures or not (found := wrong(args, named, gaps=True)):
                    return result
                raise ArgumentError(found)
            except CourseError as error:
                found = ""
                if isinstance(error, ArgumentError):
                    found = _passed_on(error, call, named)
                    found = found or (only_failures and wrong(args, named)) or ""
                if found:
                    raise ArgumentError(found) from error
                raise
            except OSError as error:
                what = f"{error.strerror}: {error.filename}" if error.filename else str(error)
                raise NoSuchFileError(f"{call}: {what}") from error
            except AS_OF_PYTHON as error:
                found = wrong(args, named)
                if whatever and not found:
                    given = ", ".join(map(what_it_is, (*args, *named.values()))) or _("its data")
                    found = _(
                        "{call} could not use {what}; %tb shows the line that failed",
                        call=call,
                        what=given,
                    )
                if found:
                    raise ArgumentError(found) from error
                raise

        return told  # type: ignore[return-value]

    return decorate


def offered(value: Any, room: str, **how: bool) -> Any:
    """Explain wrong calls of a function that notebooks use; return other values unchanged."""
    if not inspect.isfunction(value):
        return value
    return explained(f"{room}.{value.__name__}", **how)(value)


def explained_methods(
    holder: str, *names: str, **how: bool
) -> Callable[[Kind], Kind]:  # fmt: skip
    """Explain wrong calls of a class's methods; `holder` is the learners' name for an instance."""

    def decorate(kind: Kind) -> Kind:
        for name in names:
            call = kind.__name__ if name == "__init__" else f"{holder}.{name}"
            method = next(vars(base)[name] for base in kind.__mro__ if name in vars(base))
            setattr(kind, name, explained(call, **how)(method))
        return kind

    return decorate


def _misfits(
    function: Callable[..., Any], call: str, args: Any, named: Mapping[str, Any], takes_gaps: bool,
    numbers_too: bool,
) -> Iterator[str]:  # fmt: skip
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **named)
    except TypeError as error:
        yield _why_unbound(signature, call, args, named, error)
        return
    annotations, scope = _annotations(function)
    for name, value in bound.arguments.items():
        parameter = signature.parameters[name]
        if name not in annotations or parameter.kind is parameter.VAR_KEYWORD:
            continue
        kinds = kinds_in(annotations[name], scope)
        for one in value if parameter.kind is parameter.VAR_POSITIONAL else (value,):
            is_of_function = isinstance(one, PLAIN) and not (
                numbers_too or NUMBERS.isdisjoint(kinds)
            )
            if is_of_function or (takes_gaps and one is ...):
                continue
            if not any(fits(kind, one, scope) for kind in kinds):
                yield _wrong_type_text(call, name, kinds, one)


def _passed_on(error: ArgumentError, call: str, named: Mapping[str, Any]) -> str:
    """Reword an inner function's error about an argument that this call passed on (`**more`)."""
    no_argument = _(" has no argument ")
    _unused, found, rest = str(error).partition(no_argument)
    is_ours = found and rest.partition(";")[0] in named
    return f"{call}{no_argument}{rest}" if is_ours else ""


def _wrong_type_text(call: str, name: str, kinds: list[str], value: Any) -> str:
    text = _(
        "{call} takes {wanted} as `{name}`, and was given {value}",
        call=call,
        wanted=words_for(kinds),
        name=name,
        value=what_it_is(value),
    )
    hint = way_out(kinds, value)
    return f"{text}; {hint}" if hint else text


def _annotations(function: Callable[..., Any]) -> tuple[dict[str, str], Mapping[str, Any]]:
    """Return a function's annotations as text, and the global names of its module."""
    inner = inspect.unwrap(function)
    return {name: str(text) for name, text in inner.__annotations__.items()}, inner.__globals__


def _why_unbound(
    signature: inspect.Signature, call: str, args: Any, named: Mapping[str, Any], error: TypeError
) -> str:  # fmt: skip
    parameters = {name: one for name, one in signature.parameters.items() if name != "self"}
    known = [
        n for n, one in parameters.items() if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    for name in named:
        if name not in known:
            return f"{call}{_(' has no argument ')}{name}; {instead(name, known, _('it takes'))}"
    given = list(parameters)[: len(args) - ("self" in signature.parameters)]
    needed = [name for name in known if parameters[name].default is inspect.Parameter.empty]
    if lacking := [name for name in needed if name not in named and name not in given]:
        return _("{call} also needs {lacking}", call=call, lacking=", ".join(lacking))
    reason = str(error).replace("positional arguments", "values without a name")
    listed = ", ".join(known)
    return _(
        "{call} was given {reason}; it takes {listed}", call=call, reason=reason, listed=listed
    )
