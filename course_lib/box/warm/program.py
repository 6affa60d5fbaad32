"""Fast start: a task of a job becomes a fork of the warm process, which has torch loaded.

Three kinds of commands can start this way: `python FILE`, `python -m MODULE` and `torchrun`. srun
must start them with the box's Python. Variables that torch reads during its import must be
unchanged. Workers of such a torchrun are forks too. Every other command starts as usual. If a
command's environment has `COURSE_BOX_WARM=0`, the command starts as usual.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import io
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
import types
from dataclasses import dataclass
from typing import Any, NoReturn

from course_lib.box.processes import libc, roles

Environment = dict[bytes, bytes]

# torch reads this variable when its core library loads. Every script of the course sets it so.
LOG_LEVEL, COURSE_LEVEL = "TORCH_CPP_LOG_LEVEL", "ERROR"
# Variables read while torch is imported. The fork applies them again, or they have no effect.
# Makefiles, ours too, call an interpreter PYTHON.
APPLIED_AGAIN = frozenset(
    {"OMP_NUM_THREADS", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHON"}
    | {"TORCH_DISTRIBUTED_DEBUG", "TORCH_COMPILE_JOB_ID", "TORCHINDUCTOR_CACHE_DIR", LOG_LEVEL}
)
# Prefixes of other variables that are read while torch is imported or a library is loaded.
READ_EARLY = (
    "ATEN_", "BLIS_", "C10_", "CI", "DNNL_", "GLIBC_", "GOMP_", "HOME", "KINETO_", "KMP_", "LANG",
    "LC_", "LD_", "LOGLEVEL", "LOGNAME", "MALLOC_", "MKL_", "NUMEXPR_", "OMP_", "ONEDNN_",
    "OPENBLAS_", "PYTHON", "PYTORCH_", "TORCH", "TRITON_", "TZ", "USER", "XDG_CACHE_HOME",
)  # fmt: skip
# Exceptions to READ_EARLY: read only when a process group or a CUDA context is made.
READ_LATER = (
    "TORCH_NCCL_", "TORCH_GLOO_", "TORCH_FR_", "TORCHELASTIC_", "PYTORCH_CUDA_ALLOC", "PYTHON_EXEC",
)  # fmt: skip


SWITCH = b"COURSE_BOX_WARM"
LAUNCHER = "torch.distributed.run"


class Loaded:
    """State of the warm process. `base_path` is sys.path without the box's own entries."""

    def __init__(self, environment: dict[str, str], base_path: list[str]) -> None:
        self.environment = environment
        self.base_path = base_path
        self.modules = {
            name for name in sys.modules if "." not in name and name not in sys.builtin_module_names
        } - {"course_lib"}


@dataclass(frozen=True)
class Program:
    """A command that a fork can become."""

    # As in sys.orig_argv: interpreter, options, file or module, arguments.
    words: list[str]
    is_module: bool
    target: str
    arguments: list[str]
    unbuffered: bool
    environment: Environment

    @property
    def is_launcher(self) -> bool:
        return self.target == LAUNCHER or os.path.basename(self.target) == "torchrun"


def read(words: list[str], environment: Environment, loaded: Loaded) -> Program | None:
    """Return the program of a command, or None if it must start as usual. `words[0]` is a path."""
    if not _is_ours(words[0]):
        interpreter = _interpreter_of(words[0])
        if not _is_ours(interpreter):
            return None
        words = [interpreter, *words]
    unbuffered = words[1:2] == ["-u"]
    target, *arguments = words[1 + unbuffered :] or ["-"]
    is_module = target == "-m" and bool(arguments)
    if is_module:
        target, *arguments = arguments
    elif target.startswith("-") or not os.path.isfile(target):
        return None
    folder = "." if is_module else os.path.dirname(os.path.realpath(target))
    if _differs(environment, loaded) or _hides_modules(folder, environment, loaded):
        return None
    unbuffered = unbuffered or bool(environment.get(b"PYTHONUNBUFFERED"))
    return Program(words, is_module, target, arguments, unbuffered, environment)


def _is_ours(path: str) -> bool:
    """Return True if `path` is a name of the interpreter that the warm process runs."""
    return (
        os.path.dirname(path) == os.path.dirname(sys.executable)
        and os.path.basename(path).startswith("python")
        and os.path.realpath(path) == os.path.realpath(sys.executable)
    )


def _interpreter_of(script: str) -> str:
    try:
        with open(script, "rb") as file:
            first = file.readline(256)
    except OSError:
        return ""
    return os.fsdecode(first[2:].strip()) if first.startswith(b"#!") else ""


def _differs(environment: Environment, loaded: Loaded) -> bool:
    """Return True if a variable that torch reads while it loads has a different value now."""
    if environment.get(SWITCH) == b"0":
        return True
    given = {os.fsdecode(name): os.fsdecode(text) for name, text in environment.items()}
    for name in {*given, *loaded.environment} - APPLIED_AGAIN:
        early = name.startswith(READ_EARLY) and not name.startswith(READ_LATER)
        if early and given.get(name) != loaded.environment.get(name):
            return True
    threads = given.get("OMP_NUM_THREADS", "1")
    return given.get(LOG_LEVEL, COURSE_LEVEL) != COURSE_LEVEL or not threads.isdigit()


def _hides_modules(folder: str, environment: Environment, loaded: Loaded) -> bool:
    """Return True if a file beside the program has the name of a module that is already loaded."""
    more = os.fsdecode(environment.get(b"PYTHONPATH", b"")).split(":")
    for place in {folder, *filter(None, more)}:
        if os.path.isdir(place) and os.path.realpath(place) not in loaded.base_path:
            names = [entry.name for entry in os.scandir(place) if _is_importable(entry)]
            if loaded.modules & {name.partition(".")[0] for name in names}:
                return True
    return False


def _is_importable(entry: os.DirEntry[str]) -> bool:
    package = os.path.join(entry.path, "__init__.py")
    return entry.name.endswith((".py", ".pyc", ".so")) or os.path.exists(package)


def run(program: Program, loaded: Loaded) -> NoReturn:
    """Run the program in this fork and end the process."""
    gc.freeze()  # collecting objects of our earlier roles would close files of the program
    gc.enable()
    roles.close_files({0, 1, 2})
    if libc.AVAILABLE:
        libc.prctl(libc.PR_SET_NAME, os.fsencode(os.path.basename(program.words[0]))[:15])
    os.environb.clear()
    os.environb.update(program.environment)
    show_environment(program.environment)
    _set_interpreter(program, loaded.base_path)
    _set_libraries()
    for name in [name for name in sys.modules if name.partition(".")[0] == "course_lib"]:
        del sys.modules[name]
    stores = _prepare_launcher(loaded) if program.is_launcher else []
    code = _execute(program)
    if not code:
        wait_for_others(stores)
    _leave(code)


def _set_interpreter(program: Program, base_path: list[str]) -> None:
    """Set everything that a program can see of its interpreter."""
    first = os.getcwd() if program.is_module else os.path.dirname(os.path.realpath(program.target))
    given = os.environ.get("PYTHONPATH", "")
    more = [os.path.abspath(folder) for folder in given.split(":")] if given else []
    sys.path[:] = [first, *dict.fromkeys([*more, *base_path])]
    sys.path_importer_cache.clear()
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = _stream(number, name, program.unbuffered)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_IGN)
    sys.argv = [program.target, *program.arguments]
    sys.orig_argv = list(program.words)
    sys.executable = program.words[0]


def _stream(number: int, name: str, unbuffered: bool) -> io.TextIOWrapper:
    """Open a new stream. The old stream still has the file type of the warm process's stream."""
    mode = "w" if number else "r"
    raw: Any = io.FileIO(number, mode, closefd=False)
    raw.name = f"<{name}>"
    binary = raw
    if not number:
        binary = io.BufferedReader(raw)
    elif not unbuffered:
        binary = io.BufferedWriter(raw)
    old = getattr(sys, name)
    text = io.TextIOWrapper(binary, old.encoding, old.errors, "\n" if number else None)
    lines = not unbuffered and (raw.isatty() or number == 2)
    text.reconfigure(line_buffering=lines, write_through=unbuffered)
    text.mode = mode  # type: ignore[misc]
    return text


def _set_libraries() -> None:
    """Repeat the settings that torch, numpy and tempfile made when they were imported."""
    import tempfile

    tempfile.tempdir = None
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    torch: Any = sys.modules["torch"]
    torch.default_generator.seed()
    if threads := os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))
    if "TORCH_DISTRIBUTED_DEBUG" in os.environ:
        torch.distributed.set_debug_level_from_env()


def _execute(program: Program) -> int:
    """Run the program and return its exit code."""
    main = types.ModuleType("__main__")
    vars(main).update({"__builtins__": sys.modules["builtins"], "__annotations__": {}})
    sys.modules["__main__"] = main
    try:
        if program.is_module:
            runpy._run_module_as_main(program.target)  # type: ignore[attr-defined]
        else:
            _run_file(program.target, main)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        _report(error)
        return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _run_file(target: str, main: types.ModuleType) -> None:
    from importlib.machinery import SourceFileLoader

    path = os.path.join(os.getcwd(), target)
    main.__file__ = path
    main.__dict__["__cached__"] = None
    main.__loader__ = SourceFileLoader("__main__", path)
    with open(path, "rb") as file:  # keeps our `__future__` imports out of the program
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, vars(main))


def _report(error: BaseException) -> None:
    """Report an uncaught exception as the interpreter does, without our own frames."""
    own = {_execute.__code__, _run_file.__code__}
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code in own:
        trace = trace.tb_next
    error.__traceback__ = trace
    sys.excepthook(type(error), error, trace)


def _leave(code: int) -> NoReturn:
    """End as the interpreter does: threads, atexit, destructors of the main module, last flush. The
    destructors close files that the program left open. The kernel frees the objects that torch made
    while it loaded. Freeing them here would cost each process a third of a second."""
    shutdown: Any = threading
    shutdown._shutdown()
    atexit._run_exitfuncs()
    names = vars(sys.modules["__main__"])
    for name in [name for name in names if not name.startswith("__")]:
        names[name] = None
    gc.collect()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    ctypes.CDLL(None).fflush(None)
    os._exit(code)


def _prepare_launcher(loaded: Loaded) -> list[Any]:
    """Make this torchrun fork its workers. Return its stores, see `keep_stores`."""
    from torch.distributed.elastic.multiprocessing.subprocess_handler import subprocess_handler

    handler: Any = subprocess_handler.SubprocessHandler
    start_as_usual = handler._popen

    def start(self: Any, words: tuple[str, ...], variables: dict[str, str]) -> Any:
        environment = {os.fsencode(name): os.fsencode(text) for name, text in variables.items()}
        program = read(list(words), environment, loaded)
        if program is None:
            return start_as_usual(self, words, variables)
        return ForkedWorker(program, loaded, [self._stdout, self._stderr])

    handler._popen = start
    return keep_stores()


class ForkedWorker(subprocess.Popen[bytes]):
    """A worker of torchrun, forked from it. `files` may replace standard output and error."""

    def __init__(self, program: Program, loaded: Loaded, files: list[Any]) -> None:
        self.program, self.loaded, self.files = program, loaded, files
        super().__init__(program.words)

    def _execute_child(self, *_: object) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            self._become_worker()
        vars(self)["_child_created"] = True

    def _become_worker(self) -> NoReturn:
        try:
            os.setsid()
            for number, file in enumerate(self.files, start=1):
                if file is not None:
                    os.dup2(file.fileno(), number)
            roles.reset_signals()
            run(self.program, self.loaded)
        finally:
            os._exit(70)


# The launcher of the first node serves the store for torchrun's rendezvous. It ends once it has
# seen the other launchers finish. With few cores, the others are slower. Their last requests would
# then fail, and a successful run would end with a traceback.
LONGEST_WAIT_S = 2.0


def keep_stores() -> list[Any]:
    """Return a list that keeps alive the stores that this process will serve."""
    from torch.distributed.elastic.rendezvous import c10d_rendezvous_backend

    backend: Any = c10d_rendezvous_backend
    make_store = backend.TCPStore
    served: list[Any] = []

    def make(*places: Any, **options: Any) -> Any:
        store = make_store(*places, **options)
        if options.get("is_master"):
            served.append(store)
        return store

    backend.TCPStore = make
    return served


def wait_for_others(stores: list[Any]) -> None:
    """Wait until no other process is connected to our stores, according to the kernel."""
    ports = {store.port for store in stores}
    end = time.monotonic() + LONGEST_WAIT_S
    while ports and _connected(ports) and time.monotonic() < end:
        time.sleep(0.01)


def _connected(ports: set[int]) -> bool:
    import psutil

    ours = psutil.Process().net_connections("tcp")
    ends = {(one.laddr.ip, one.laddr.port) for one in ours}
    return any(
        one.status == psutil.CONN_ESTABLISHED
        and one.laddr.port in ports
        and (one.raddr.ip, one.raddr.port) not in ends
        for one in ours
    )


# /proc/<pid>/environ shows the memory in which the kernel stored the variables at process start. A
# fork therefore still shows the variables of the warm process. This memory has a fixed size, so
# short variables come first (a rank's RANK, the job's number). Variables that do not fit are left
# out. The constant is the index among the fields after the process's name in /proc/<pid>/stat. The
# next field is the end (proc(5), 50 and 51).
ENVIRONMENT_START = 47


def show_environment(environment: Environment) -> None:
    """Write the variables where /proc shows them. Do nothing if the kernel hides the address."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        with open("/proc/self/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        start, end = (int(field) for field in fields[ENVIRONMENT_START : ENVIRONMENT_START + 2])
        if 0 < start < end:
            ctypes.memmove(start, block(environment, end - start), end - start)


def block(environment: Environment, size: int) -> bytes:
    """Return `size` bytes: whole variables, each ended by NUL, then NULs."""
    lines = [name + b"=" + value for name, value in environment.items()]
    found = b""
    for line in sorted(lines, key=len):
        if len(found) + len(line) < size:
            found += line + b"\0"
    return found.ljust(size, b"\0")
