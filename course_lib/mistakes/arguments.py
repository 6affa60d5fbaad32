"""Calls that cannot be answered, told in the words of the function that was called.

What a function can say itself it says better. This is for the rest: a value of another kind, of
which only some line deep inside would complain, in Python's words.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache, wraps
from typing import Any, TypeVar

from course_lib.mistakes.errors import ArgumentError, CourseError, NoSuchFileError
from course_lib.mistakes.kinds import fits, is_of_numbers, is_plain, way_out, what_it_is, words_for
from course_lib.mistakes.names import instead

Function = TypeVar("Function", bound=Callable[..., Any])
Kind = TypeVar("Kind", bound=type)
NO_ARGUMENT = " has no argument "
AS_OF_PYTHON = (TypeError, AttributeError, LookupError, ValueError, ArithmeticError)


def explained(
    call: str, *, only_failures: bool = False, takes_gaps: bool = False, whatever: bool = False
) -> Callable[[Function], Function]:  # fmt: skip
    """A function that learners call as `call`. Its arguments are looked at before it runs, or
    `only_failures` where thousands of calls come from the course itself. `takes_gaps`: `...` is
    the function's own affair. `whatever`: also errors that no argument explains become a sentence,
    as for drawings, which take anything that has the right table."""

    def decorate(function: Function) -> Function:
        @wraps(function)
        def told(*args: Any, **named: Any) -> Any:
            if not only_failures:
                _look_before(function, call, args, named, takes_gaps)
            try:
                return function(*args, **named)
            except CourseError as error:
                if isinstance(error, ArgumentError) and (own := _passed_on(error, call, named)):
                    raise ArgumentError(own) from error
                if isinstance(error, ArgumentError) and only_failures:  # of a call within this one
                    found = next(_misfits(function, call, args, named, takes_gaps), "")
                    if found:
                        raise ArgumentError(found) from error
                raise
            except OSError as error:
                raise _about_file(call, error) from error
            except AS_OF_PYTHON as error:
                if found := next(_misfits(function, call, args, named, takes_gaps), ""):
                    raise ArgumentError(found) from error
                if whatever:
                    raise ArgumentError(_not_understood(call, args, named)) from error
                raise

        return told  # type: ignore[return-value]

    return decorate


def offered(value: Any, room: str, **how: bool) -> Any:
    """What a room shows to notebooks: its functions explained, all else as it is."""
    if not inspect.isfunction(value):
        return value
    return explained(f"{room}.{value.__name__}", **how)(value)


def explained_methods(
    holder: str, *names: str, **how: bool
) -> Callable[[Kind], Kind]:  # fmt: skip
    """The same for methods of a class; `holder` is what learners call an object of it."""

    def decorate(kind: Kind) -> Kind:
        for name in names:
            call = kind.__name__ if name == "__init__" else f"{holder}.{name}"
            method = next(vars(base)[name] for base in kind.__mro__ if name in vars(base))
            setattr(kind, name, explained(call, **how)(method))
        return kind

    return decorate


def _look_before(
    function: Callable[..., Any], call: str, args: Any, named: Mapping[str, Any], takes_gaps: bool
) -> None:  # fmt: skip
    """Numbers are left to the function: it knows which ones it can take."""
    for problem in _misfits(function, call, args, named, takes_gaps, numbers_too=False):
        raise ArgumentError(problem)


def _misfits(
    function: Callable[..., Any], call: str, args: Any, named: Mapping[str, Any], takes_gaps: bool,
    numbers_too: bool = True,
) -> Iterator[str]:  # fmt: skip
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **named)
    except TypeError:
        yield _why_unbound(signature, call, args, named)
        return
    wanted = _annotations(function)
    for name, value in bound.arguments.items():
        parameter = signature.parameters[name]
        if name == "self" or name not in wanted or parameter.kind is parameter.VAR_KEYWORD:
            continue
        several = parameter.kind is parameter.VAR_POSITIONAL
        for one in value if several else (value,):
            of_function = is_of_numbers(wanted[name]) and is_plain(one) and not numbers_too
            if of_function or (takes_gaps and one is ...):
                continue
            if not fits(wanted[name], one):
                yield _told(call, name, wanted[name], one)


def _passed_on(error: ArgumentError, call: str, named: Mapping[str, Any]) -> str:
    """In this call's words what an inner one says of an argument that it was handed (`**more`)."""
    _, found, rest = str(error).partition(NO_ARGUMENT)
    is_ours = found and rest.partition(";")[0] in named
    return f"{call}{NO_ARGUMENT}{rest}" if is_ours else ""


def _told(call: str, name: str, wanted: Any, value: Any) -> str:
    text = f"{call} takes {words_for(wanted)} as `{name}`, and was given {what_it_is(value)}"
    hint = way_out(wanted, value)
    return f"{text}; {hint}" if hint else text


@cache
def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    """Those that can be looked up: what is imported for types alone is not there to be asked."""
    inner = inspect.unwrap(function)
    found = {}
    for name, text in inner.__annotations__.items():
        try:
            found[name] = eval(text, inner.__globals__) if isinstance(text, str) else text
        except NameError:
            continue
    return found


def _why_unbound(
    signature: inspect.Signature, call: str, args: Any, named: Mapping[str, Any]
) -> str:  # fmt: skip
    known = {name: one for name, one in signature.parameters.items() if name != "self"}
    starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    by_name = [name for name, one in known.items() if one.kind not in starred]
    for name in named:
        if name not in by_name:
            return f"{call}{NO_ARGUMENT}{name}; {instead(name, by_name, 'it takes')}"
    given = len(args) - ("self" in signature.parameters)
    in_order = [n for n in by_name if known[n].kind is not inspect.Parameter.KEYWORD_ONLY]
    if given > len(in_order):
        rest = [name for name in by_name if name not in in_order[:given]]
        names = f"; give the others by name: {', '.join(rest)}" if rest else ""
        return f"{call} takes {len(in_order)} values without a name, and was given {given}{names}"
    if twice := [name for name in in_order[:given] if name in named]:
        return f"{call} was given {twice[0]} twice: by its place and by its name"
    without = [n for n in by_name if known[n].default is inspect.Parameter.empty]
    lacking = [name for name in without if name not in named and name not in in_order[:given]]
    return f"{call} also needs {', '.join(lacking)}"


def _about_file(call: str, error: OSError) -> CourseError:
    if isinstance(error, FileNotFoundError):
        what = f"there is no file {error.filename}" if error.filename else str(error)
    else:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return NoSuchFileError(f"{call}: {what}")


def _not_understood(call: str, args: Any, named: Mapping[str, Any]) -> str:
    given = [what_it_is(value) for value in (*args, *named.values())]
    what = ", ".join(given) or "what it found"
    return f"{call} could not make sense of {what}; %tb shows where it gave up"
