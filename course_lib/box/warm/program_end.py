"""The end of a program that was forked from the warm process.

Everything that a program can notice of the interpreter's own end, in the same order: threads,
atexit, the destructors of what it made, the last flush. What torch made while it was loaded is
left to the kernel; taking it apart would cost a third of a second of every process.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import os
import signal
import sys
import threading
import types
from typing import Any, NoReturn

INTERRUPTED = -int(signal.SIGINT)
FLUSH_FAILED = 120
"""Exit status of Python when its standard output could not be written at the end."""


def code_of(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return int(end.code or 0) & 0xFF
    sys.stdout.flush()
    print(end.code, file=sys.stderr)
    return 1


def report(error: BaseException, own: set[types.CodeType]) -> int:
    """As the interpreter does for an exception that nobody caught, without our own frames."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code in own:
        trace = trace.tb_next
    error.__traceback__ = trace
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    sys.excepthook(type(error), error, trace)
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def leave(code: int, modules_before: set[str]) -> NoReturn:
    shutdown: Any = threading
    shutdown._shutdown()
    atexit._run_exitfuncs()
    _clear([name for name in sys.modules if name not in modules_before])
    code = _flush(code)
    ctypes.CDLL(None).fflush(None)
    if code == INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code)


def _clear(names: list[str]) -> None:
    """Runs the destructors of what the program and its own modules hold, itself first."""
    for name in ["__main__", *reversed(names)]:
        module = sys.modules.get(name)
        if isinstance(module, types.ModuleType):
            for key in list(vars(module)):
                if not key.startswith("__"):
                    vars(module)[key] = None
    gc.collect()


def _flush(code: int) -> int:
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except Exception as error:
            if stream is sys.stdout:
                with contextlib.suppress(Exception):
                    text = f"Exception ignored in: {stream!r}\n{type(error).__name__}: {error}\n"
                    sys.stderr.write(text)
                code = FLUSH_FAILED
    return code
