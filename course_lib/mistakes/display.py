"""How a notebook shows an error of the course: the learner's line and the message.

Nothing but the course's own errors is touched, and names that their cells did not come to make.
`%tb` shows every step, as for any other error.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

from course_lib.mistakes import left_open
from course_lib.mistakes.errors import CourseError
from course_lib.words import told

COURSE = str(Path(__file__).resolve().parents[1])
LINES_OF_A_CALL = 5
RED, PLAIN = "\x1b[31m", "\x1b[39m"


def install() -> None:
    """Beside a handler that somebody else has put there; once for a kernel."""
    from IPython import get_ipython

    shell = get_ipython()
    if shell is None or CourseError in shell.custom_exceptions:
        return
    others, their_handler = shell.custom_exceptions, shell.CustomTB

    def handle(
        shell: Any, kind: type, error: BaseException, trace: TracebackType, tb_offset: Any = None
    ) -> Any:  # fmt: skip
        if isinstance(error, NameError):
            text = told(left_open.why_missing(error.name or ""))
        elif isinstance(error, CourseError):
            text = told(error)
            left_open.note(_cell(trace), text)
        else:
            return their_handler(kind, error, trace, tb_offset)
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
        if text:
            lines = message(error, trace, shell, text)
        else:  # a name that the course knows nothing of
            lines = shell.InteractiveTB.structured_traceback(kind, error, trace, tb_offset)
        shell._showtraceback(kind, error, lines)
        return lines

    shell.set_custom_exc((*others, CourseError, NameError), handle)


def message(
    error: BaseException, trace: TracebackType | None, shell: Any = None, text: str = ""
) -> list[str]:
    """The learner's own lines on the way into the course, then what the course says."""
    lines = [line for frame, at in _own(trace) for line in _shown(frame, at, shell)]
    red, plain = (RED, PLAIN) if _is_coloured(shell) else ("", "")
    return [*lines, f"{red}{type(error).__name__}{plain}: {text or told(error)}"]


def _cell(trace: TracebackType | None) -> str:
    """The source of the cell that failed."""
    first = next(_own(trace), None)
    return "" if first is None else "".join(linecache.getlines(first[0].f_code.co_filename))


def _is_coloured(shell: Any) -> bool:
    return str(getattr(shell, "colors", "")).lower() != "nocolor"


def _own(trace: TracebackType | None) -> Iterator[tuple[FrameType, tuple[int, int]]]:
    """Frames outside of the course and before it, without IPython's own, with their lines."""
    while trace is not None and not _is_inside(trace.tb_frame.f_code):
        if not str(trace.tb_frame.f_globals.get("__name__")).startswith(("IPython.", "ipykernel.")):
            yield trace.tb_frame, _lines(trace)
        trace = trace.tb_next


def _is_inside(code: CodeType) -> bool:
    return code.co_filename.startswith(COURSE)


def _lines(trace: TracebackType) -> tuple[int, int]:
    """First and last line of the call: a call may go over several."""
    places = list(trace.tb_frame.f_code.co_positions())
    first, last, _, _ = places[trace.tb_lasti // 2]
    first = first or trace.tb_lineno
    return first, min(last or first, first + LINES_OF_A_CALL - 1)


def _shown(frame: FrameType, at: tuple[int, int], shell: Any) -> list[str]:
    name = frame.f_code.co_filename
    first, last = at
    cell = getattr(getattr(shell, "compile", None), "format_code_name", lambda _: None)(name)
    place = " ".join(cell) if cell else name
    marked = [
        f"{'---->' if number == first else '     '} {number} {linecache.getline(name, number)}"
        for number in range(first, last + 1)
    ]
    return [f"{place}, line {first}\n{''.join(marked)}"]
