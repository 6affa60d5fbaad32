"""Display of the course's errors in a notebook: the learner's line and the message.

Only errors of the course, and missing names of stopped cells, are shown this way. `%tb` shows the
full traceback, as for any error.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import Any

from course_lib.mistakes import left_open
from course_lib.mistakes.errors import CourseError
from course_lib.mistakes.names import instead
from course_lib.read.messages import ReadError
from course_lib.words import _

COURSE = str(Path(__file__).resolve().parents[1])
LINES_OF_A_CALL = 5
RED, PLAIN = "\x1b[31m", "\x1b[39m"


def install(shell: Any) -> bool:
    """Install the handler. Return False if it was already installed."""
    if CourseError in shell.custom_exceptions:
        return False
    their_expand = shell.var_expand

    def expand(command: str, depth: int = 0, **more: Any) -> Any:
        left_open.refuse_missing(command, shell.user_ns)  # IPython would pass on `{name}` itself
        return their_expand(command, depth + 1, **more)

    def handle(
        shell: Any, kind: type, error: Any, trace: TracebackType, tb_offset: Any = None
    ) -> Any:  # fmt: skip
        if isinstance(error, NameError):
            text = left_open.why_missing(error.name or "")
        elif isinstance(error, CourseError | ReadError | KeyboardInterrupt):
            text = str(error)
        else:
            text = _misspelt(error)
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
        if text:
            lines = message(error, trace, shell, text)
        else:  # a name or object that the course does not know
            lines = shell.InteractiveTB.structured_traceback(kind, error, trace, tb_offset)
        shell._showtraceback(kind, error, lines)
        return lines

    kinds = (CourseError, ReadError, NameError, AttributeError, KeyboardInterrupt)
    shell.set_custom_exc(kinds, handle)
    shell.var_expand = expand
    shell.events.register("pre_run_cell", lambda info: left_open.begin(info, shell.user_ns))
    shell.events.register("post_run_cell", lambda result: left_open.end(result, shell.user_ns))
    return True


def _misspelt(error: AttributeError) -> str:
    """Suggest the correct name in a module or object of the course; empty for other objects."""
    holder, name = error.obj, error.name or ""
    kind = holder.__name__ if isinstance(holder, ModuleType) else type(holder).__module__
    if not kind.startswith("course_lib.") or name.startswith("_"):
        return ""
    title = kind.rpartition(".")[2] if isinstance(holder, ModuleType) else type(holder).__name__
    public = [known for known in dir(holder) if not known.startswith("_")]
    return f"{title} has no {name!r}; {instead(name, public)}" if name not in public else ""


def message(
    error: BaseException, trace: TracebackType | None, shell: Any = None, text: str = ""
) -> list[str]:
    """Return the learner's own lines of the traceback, then the message."""
    lines = [line for frame, at in _own(trace) for line in _shown(frame, at, shell)]
    is_coloured = str(getattr(shell, "colors", "")).lower() != "nocolor"
    red, plain = (RED, PLAIN) if is_coloured else ("", "")
    return [*lines, f"{red}{type(error).__name__}{plain}: {text or error}"]


def _own(trace: TracebackType | None) -> Iterator[tuple[FrameType, tuple[int, int]]]:
    """Yield the frames before the course's first, without IPython's, and their lines."""
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith(COURSE):
        if not str(trace.tb_frame.f_globals.get("__name__")).startswith(("IPython.", "ipykernel.")):
            yield trace.tb_frame, _lines(trace)
        trace = trace.tb_next


def _lines(trace: TracebackType) -> tuple[int, int]:
    """Return the first and last line of a call, which may span several lines."""
    places = list(trace.tb_frame.f_code.co_positions())
    first, last, _unused, _unused = places[trace.tb_lasti // 2]
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
    return [_("{place}, line {first}\n{marked}", place=place, first=first, marked="".join(marked))]
