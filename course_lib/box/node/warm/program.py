"""Turns a fork of the warm process into the Python program that was asked for."""

from __future__ import annotations

import atexit
import ctypes
import io
import os
import signal
import sys
import types
from typing import Any

from course_lib.box.node import libc
from course_lib.box.node.warm.decide import Choice, Loaded

class Program(BaseException):
    """Raised in a fork; unwinds to the very first frame, where `run` is called."""

    def __init__(self, choice: Choice, environment: dict[bytes, bytes]) -> None:
        super().__init__()
        self.choice = choice
        self.environment = environment


def run(program: Program) -> None:
    """Returns when the program has ended, so that the interpreter ends in its natural way."""
    choice = program.choice
    if libc.AVAILABLE:
        libc.prctl(libc.PR_SET_NAME, os.fsencode(choice.name)[:15])
    os.environb.clear()
    os.environb.update(program.environment)
    _set_flags(choice)
    _set_path(choice)
    _set_streams(choice.unbuffered)
    _set_signals(choice.ignored_signals)
    _set_libraries()
    sys.argv = list(choice.argv)
    sys.orig_argv = list(choice.original)
    for name in [name for name in sys.modules if name.partition(".")[0] == "course_lib"]:
        del sys.modules[name]
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    main.__dict__["__annotations__"] = {}
    sys.modules["__main__"] = main
    try:
        _execute(choice, main)
    except SystemExit:
        raise
    except BaseException as error:
        _report(error)


def _execute(choice: Choice, main: types.ModuleType) -> None:
    if choice.kind == "module":
        import runpy

        runpy._run_module_as_main(choice.target)  # type: ignore[attr-defined]
        return
    if choice.kind == "code":
        code = compile(choice.target, "<string>", "exec")
    else:
        from importlib.machinery import SourceFileLoader

        path = os.path.abspath(choice.target)
        main.__dict__["__file__"] = path
        main.__dict__["__cached__"] = None
        main.__loader__ = SourceFileLoader("__main__", path)
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec")
    exec(code, main.__dict__)


def _report(error: BaseException) -> None:
    """As the interpreter does it for an exception that nobody caught."""
    trace = error.__traceback__
    own = {run.__code__, _execute.__code__}
    while trace is not None and trace.tb_frame.f_code in own:
        trace = trace.tb_next
    error.__traceback__ = trace
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    sys.excepthook(type(error), error, trace)
    if isinstance(error, KeyboardInterrupt):
        import threading

        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    sys.exit(1)


def _set_flags(choice: Choice) -> None:
    """sys.flags is read-only in Python; the interpreter itself has a call to fill it."""
    fill = ctypes.pythonapi.PyStructSequence_SetItem
    fill.argtypes, fill.restype = [ctypes.py_object, ctypes.c_ssize_t, ctypes.py_object], None
    number = int(choice.no_bytecode)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(number))  # the call keeps our reference
    fill(sys.flags, _flag_order().index("dont_write_bytecode"), number)
    sys.dont_write_bytecode = choice.no_bytecode


def _flag_order() -> list[str]:
    """Field names of sys.flags in their order, which its text shows."""
    inside = repr(sys.flags).partition("(")[2]
    return [part.partition("=")[0].strip() for part in inside.split(",")]


def _set_path(choice: Choice) -> None:
    import importlib

    assert Loaded.now is not None
    first = {"code": "", "module": os.getcwd()}.get(choice.kind)
    if first is None:
        first = os.path.dirname(os.path.realpath(choice.target))
    given = os.environ.get("PYTHONPATH", "")
    more = [os.path.abspath(folder) for folder in given.split(":")] if given else []
    sys.path[:] = [first, *dict.fromkeys([*more, *Loaded.now.base_path])]
    sys.path_importer_cache.clear()
    importlib.invalidate_caches()


def _set_streams(unbuffered: bool) -> None:
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        old = getattr(sys, f"__{name}__")
        new = _stream(number, name, mode, unbuffered, old.encoding, old.errors)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
        KEPT.append(old)


KEPT: list[Any] = []
"""Streams of the warm process that log handlers made at import still write to."""


def _stream(
    number: int, name: str, mode: str, unbuffered: bool, encoding: str, errors: str
) -> io.TextIOWrapper | None:
    try:
        raw = io.FileIO(number, mode, closefd=False)
    except OSError:
        return None
    raw.name = f"<{name}>"  # type: ignore[misc]
    buffer: Any = raw
    if mode == "r":
        buffer = io.BufferedReader(raw)
    elif not unbuffered:
        buffer = io.BufferedWriter(raw)
    lines = not unbuffered and (raw.isatty() or name == "stderr")
    text = io.TextIOWrapper(
        buffer, encoding, errors, "\n", line_buffering=lines, write_through=unbuffered
    )
    text.mode = mode  # type: ignore[misc]
    return text


def _set_signals(ignored: tuple[int, ...]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


def _set_libraries() -> None:
    """What torch, numpy and tempfile worked out when they were imported."""
    import gc
    import tempfile

    gc.enable()
    tempfile.tempdir = None
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    torch: Any = sys.modules["torch"]
    if threads := os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))
    if "TORCH_DISTRIBUTED_DEBUG" in os.environ:
        torch.distributed.set_debug_level_from_env()
