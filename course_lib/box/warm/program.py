"""Turns a fork of the warm process into the Python program that was asked for."""

from __future__ import annotations

import ctypes
import io
import os
import signal
import sys
import types
from typing import Any, NoReturn

from course_lib.box.processes import libc
from course_lib.box.warm import program_end, torchrun_store, visible_environment
from course_lib.box.warm.decide import PythonCommand

LAUNCHER = "torch.distributed.run"
READ_LOG_LEVEL = "_ZN3c1011initLoggingEv"
"""c10::initLogging, which reads the level from the environment; what torch calls when imported."""


class Program(BaseException):
    """Raised in a fork; unwinds to the very first frame, where `run` is called."""

    def __init__(
        self, command: PythonCommand, environment: dict[bytes, bytes], base_path: list[str]
    ) -> None:
        super().__init__()
        self.command = command
        self.environment = environment
        self.base_path = base_path
        self.replaced_streams: list[Any] = []
        """Those of the warm process; log handlers made at import still write to them."""


def run(program: Program) -> NoReturn:
    """Plays the program to its end."""
    command = program.command
    program.__traceback__ = None
    _forget_sockets()
    _take_environment(program)
    program.replaced_streams = _set_interpreter(command, program.base_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "course_lib"]:
        del sys.modules[name]
    before = set(sys.modules)
    main = types.ModuleType("__main__")
    vars(main).update({"__builtins__": sys.modules["builtins"], "__annotations__": {}})
    sys.modules["__main__"] = main
    code = _execute(command, main)
    program_end.leave(code, before)


def _take_environment(program: Program) -> None:
    if libc.AVAILABLE:
        libc.prctl(libc.PR_SET_NAME, os.fsencode(program.command.name)[:15])
    os.environb.clear()
    os.environb.update(program.environment)
    visible_environment.show_environment(program.environment)


def _set_interpreter(command: PythonCommand, base_path: list[str]) -> list[Any]:
    """All that a program can see of its interpreter. Returns the streams that were there before."""
    _set_flags(command)
    _set_path(command, base_path)
    replaced = _set_streams(command.unbuffered)
    _set_signals(command.ignored_signals)
    _set_libraries()
    sys.argv = list(command.argv)
    sys.orig_argv = list(command.original)
    sys.executable = command.original[0]
    return replaced


def _execute(command: PythonCommand, main: types.ModuleType) -> int:
    """Runs it, and says with which code it ends."""
    stores: list[Any] = []
    try:
        if command.target == LAUNCHER or os.path.basename(command.argv[0]) == "torchrun":
            stores = torchrun_store.keep_stores()
        _run_code(command, main)
        torchrun_store.wait_for_others(stores)
    except SystemExit as end:
        code = program_end.code_of(end)
        if not code:
            torchrun_store.wait_for_others(stores)
        return code
    except BaseException as error:
        return program_end.report(error, {_execute.__code__, _run_code.__code__})
    return 0


def _forget_sockets() -> None:
    """Sockets of our earlier roles are closed already; as garbage they would close others."""
    import gc
    import socket

    for thing in gc.get_objects():
        if isinstance(thing, socket.socket):
            thing.detach()


def _run_code(command: PythonCommand, main: types.ModuleType) -> None:
    if command.kind == "module":
        import runpy

        runpy._run_module_as_main(command.target)  # type: ignore[attr-defined]
        return
    # `dont_inherit`: the `__future__` of this file is not the program's.
    if command.kind == "code":
        code = compile(command.target, "<string>", "exec", dont_inherit=True)
    else:
        from importlib.machinery import SourceFileLoader

        path = os.path.join(os.getcwd(), command.target)
        main.__dict__["__file__"] = path
        main.__dict__["__cached__"] = None
        main.__loader__ = SourceFileLoader("__main__", path)
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def _set_flags(command: PythonCommand) -> None:
    """sys.flags is read-only in Python; the interpreter itself has a call to fill it."""
    fill = ctypes.pythonapi.PyStructSequence_SetItem
    fill.argtypes, fill.restype = [ctypes.py_object, ctypes.c_ssize_t, ctypes.py_object], None
    number = int(command.no_bytecode)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(number))  # the call keeps our reference
    fill(sys.flags, _flag_order().index("dont_write_bytecode"), number)
    sys.dont_write_bytecode = command.no_bytecode


def _flag_order() -> list[str]:
    """Field names of sys.flags in their order, which its text shows."""
    inside = repr(sys.flags).partition("(")[2]
    return [part.partition("=")[0].strip() for part in inside.split(",")]


def _set_path(command: PythonCommand, base_path: list[str]) -> None:
    import importlib

    first = {"code": "", "module": os.getcwd()}.get(command.kind)
    if first is None:
        first = os.path.dirname(os.path.realpath(command.target))
    given = os.environ.get("PYTHONPATH", "")
    more = [os.path.abspath(folder) for folder in given.split(":")] if given else []
    sys.path[:] = [first, *dict.fromkeys([*more, *base_path])]
    sys.path_importer_cache.clear()
    importlib.invalidate_caches()


def _set_streams(unbuffered: bool) -> list[Any]:
    """The streams that were there before."""
    replaced = []
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, f"__{name}__")
        new = _stream(number, name, unbuffered, old)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
        replaced.append(old)
    return replaced


def _stream(number: int, name: str, unbuffered: bool, old: Any) -> io.TextIOWrapper | None:
    mode = "r" if number == 0 else "w"
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
        buffer,
        old.encoding,
        old.errors,
        None if mode == "r" else "\n",
        line_buffering=lines,
        write_through=unbuffered,
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
    torch.default_generator.seed()
    if threads := os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))
    if "TORCH_DISTRIBUTED_DEBUG" in os.environ:
        torch.distributed.set_debug_level_from_env()
    _set_log_level(torch)


def _set_log_level(torch: Any) -> None:
    """Every script of the course sets it; torch reads it when its core library is loaded."""
    name, default = "TORCH_CPP_LOG_LEVEL", "WARNING"
    core = os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so")
    given = os.environ.get(name)
    os.environ[name] = given or default
    library = ctypes.CDLL(core)
    if hasattr(library, READ_LOG_LEVEL):
        library[READ_LOG_LEVEL]()
    if given is None:
        del os.environ[name]
