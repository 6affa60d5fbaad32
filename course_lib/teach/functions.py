"""Call a learner's function and explain errors in its result.

The function is called with positional arguments as in the lesson, or by parameter names. Its
prints are discarded. It may call functions of the course only if the exercise asks for them.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import FrameType
from typing import Any

import numpy as np

from course_lib.lab.workspace import PACKAGE, programs_folder
from course_lib.plan.numbers import real
from course_lib.teach.answers import in_short, what_it_is
from course_lib.teach.checklist import Checklist
from course_lib.words import _

OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
COURSE = (str(PACKAGE), str(programs_folder()))
CHECKS = str(PACKAGE / "teach")


def is_function(check: Checklist, function: Any, name: str) -> None:
    check.answered(function, name)
    check.needs(
        callable(function),
        _("{name} is a function", name=name),
        hint=what_it_is(function, _("give the check the function itself, without calling it")),
    )


def returned(
    check: Checklist,
    function: Callable[..., Any],
    read: Callable[[Any], Any],
    guard: Callable[[], contextlib.AbstractContextManager[None]] | None = None,
    /,
    **given: Any,
) -> Any:
    """Call the function and read its result. Report any exception of either to the learner.

    Give the guard `quiet` if the exercise asks for functions of the course.
    """
    named = [name if isinstance(one, np.ndarray) else repr(one) for name, one in given.items()]
    name = getattr(function, "__name__", "function")
    asked = _("{call} gives a result", call=f"{name}({', '.join(named)})")
    try:
        with (guard or guarded)():
            answer = called(function, **given)
            found = None if answer is None or answer is ... else read(answer)
    except Exception as error:
        said = f"{type(error).__name__}: {str(error)[:200]}"
        check.refuse(asked, "", said)
    if found is None:
        nothing = _(
            "Your function returned nothing. Is a gap still open, is a return missing, or does it "
            "find no result here? There is one."
        )
        check.stop(asked, nothing)
    return found


def whole_numbers(given: Iterable[Any], most: int) -> list[int]:
    """Return at most `most` whole numbers, of any real type."""
    found = [(one, real(one)) for one in islice(given, most)]
    strange = [one for one, number in found if number is None or number != int(number)]
    if strange:
        raise TypeError(_("{value} is not a whole number", value=in_short(strange[0])))
    return [int(number or 0) for _one, number in found]


def called(function: Callable[..., Any], **given: Any) -> Any:
    """Call with positional arguments, or with keywords if the parameters have the same names."""
    by_name = _by_name(function, set(given))
    return function(**given) if by_name else function(*given.values())


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Discard prints, and refuse `exit()`, while a learner's code runs."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    except SystemExit:
        ends = _("the function ends the program, but it must return a result")
        raise RuntimeError(ends) from None


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Be quiet, and refuse calls of the course too."""
    before = sys.getprofile()
    try:
        with quiet():
            sys.setprofile(_refuse_course)
            yield
    finally:
        sys.setprofile(before)


def _refuse_course(frame: FrameType, event: str, _argument: object) -> None:
    file, caller = frame.f_code.co_filename, frame.f_back
    if event != "call" or caller is None or file == __file__ or not file.startswith(COURSE):
        return
    # The caller of a generator's frame is the code that asks for its first item.
    is_generator = frame.f_code.co_flags & inspect.CO_GENERATOR and not file.startswith(CHECKS)
    by_course = caller.f_code.co_filename.startswith(COURSE)
    if caller.f_code is called.__code__ or is_generator or not by_course:
        raise RuntimeError(
            _(
                "the function calls {co_name} of the course. Write this function yourself",
                co_name=frame.f_code.co_name,
            )
        )


def _by_name(function: Callable[..., Any], names: set[str]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some builtins have no signature
        return False
    asked = [one for one in parameters if one.kind not in OPEN]
    if any(one.kind is inspect.Parameter.POSITIONAL_ONLY for one in asked):
        return False
    required = {one.name for one in asked if one.default is inspect.Parameter.empty}
    return required <= names <= {one.name for one in asked} and bool(required)
