"""Would a Python command notice that it was forked from the warm process? Then it starts cold."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from course_lib.box.warm.loaded import Loaded
from course_lib.box.warm.shims import Shims

Environment = dict[bytes, bytes]

SWITCH = b"COURSE_BOX_WARM"
"""`0` in the environment of a command starts it cold."""

APPLIED_AGAIN = frozenset(
    {"OMP_NUM_THREADS", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH"}
    | {"TORCH_DISTRIBUTED_DEBUG", "PATH", "TMPDIR", "TEMP", "TMP", "TORCH_COMPILE_JOB_ID"}
    | {"TORCH_CPP_LOG_LEVEL", "TORCHINDUCTOR_CACHE_DIR", "PYTHON"}
)
"""Read while torch is imported, and set right in the fork by `program`, or without effect
(makefiles, ours too, call an interpreter PYTHON)."""

OFTEN_SET = frozenset({"CI", "HOME", "LOGLEVEL", "LOGNAME", "USER", "XDG_CACHE_HOME"})
"""Read while torch is imported, by name, and likely to be set."""

READ_BY_LIBRARIES = (
    "ATEN_", "BLIS_", "C10_", "DNNL_", "GLIBC_", "GOMP_", "KINETO_", "KMP_", "LANG", "LC_", "LD_",
    "MALLOC_", "MKL_", "NUMEXPR_", "OMP_", "ONEDNN_", "OPENBLAS_", "PYTHON", "PYTORCH_", "TORCH_",
    "TZ",
)  # fmt: skip
"""Names that C and C++ libraries read when they are loaded, which nobody can watch."""

READ_LATER = ("TORCH_NCCL_", "TORCH_GLOO_", "TORCH_FR_", "PYTORCH_CUDA_ALLOC", "PYTHON_EXEC")
"""Of those, names that are read only when a process group or a CUDA context is made."""


@dataclass(frozen=True)
class PythonCommand:
    """A Python command that a fork of the warm process can become."""

    kind: str
    """`file`, `module` (-m) or `code` (-c)."""
    target: str
    argv: list[str]
    """As the program sees it in sys.argv."""
    original: list[str] = field(default_factory=list)
    name: str = "python"
    unbuffered: bool = False
    no_bytecode: bool = False
    ignored_signals: tuple[int, ...] = ()


class Cold(Exception):
    """The command has to start cold; why."""


def of_command(
    shims: Shims, path: bytes, argv: list[bytes], environment: Environment
) -> PythonCommand | None:
    """For a command that a step daemon is about to exec."""
    loaded = shims.loaded
    if loaded is None or environment.get(SWITCH) == b"0":
        return None
    words = [os.fsdecode(word) for word in argv]
    absolute = os.path.abspath(os.fsdecode(path))
    try:
        if absolute in shims.interpreters:
            return of_interpreter([absolute, *words[1:]], environment, loaded)
        if _interpreter_of(path) in shims.interpreters:
            script = os.fsdecode(path)
            words = [shims.interpreters[0], script, *words[1:]]
            return of_interpreter(words, environment, loaded, script)
    except Cold:
        pass  # the streams are the task's already: nowhere to say it
    return None


def _interpreter_of(script: bytes) -> str:
    try:
        with open(script, "rb") as file:
            first = file.readline(256)
    except OSError:
        return ""
    return os.fsdecode(first[2:].strip()) if first.startswith(b"#!") else ""


def of_interpreter(
    words: list[str], environment: Environment, loaded: Loaded, script: str = ""
) -> PythonCommand:
    """`words` as in sys.orig_argv. Options that change the interpreter itself mean: cold."""
    flags = {"-u": False, "-B": False}
    position = 1
    while position < len(words) and words[position] in flags:
        flags[words[position]] = True
        position += 1
    kind, target, argv = _program(words[position:])
    why = "its options, or no file" if not kind else _other_environment(environment, loaded)
    why = why or _shadows(kind, target, environment, loaded)
    if why:
        raise Cold(f"cold start of {' '.join(words)[:200]}: {why}")
    return PythonCommand(
        kind=kind,
        target=target,
        argv=argv,
        original=words,
        name=os.path.basename(script or words[0]),
        unbuffered=flags["-u"] or bool(environment.get(b"PYTHONUNBUFFERED")),
        no_bytecode=flags["-B"] or bool(environment.get(b"PYTHONDONTWRITEBYTECODE")),
    )


def _program(rest: list[str]) -> tuple[str, str, list[str]]:
    """Kind, target and sys.argv; an empty kind for what must start cold."""
    first = rest[0] if rest else "-"
    if first in ("-c", "-m"):
        kind = "code" if first == "-c" else "module"
        return (kind, rest[1], [first, *rest[2:]]) if len(rest) > 1 else ("", "", [])
    if first.startswith("-") or first.endswith(".pyc") or not os.path.isfile(first):
        return "", "", []
    return "file", first, rest


def _other_environment(environment: Environment, loaded: Loaded) -> str:
    """What was read while torch was loaded, and would be read otherwise by this program."""
    if environment.get(SWITCH) == b"0":
        return "COURSE_BOX_WARM is 0"
    given = {os.fsdecode(name): os.fsdecode(text) for name, text in environment.items()}
    names = {
        name
        for name in (*given, *loaded.environment)
        if name.startswith(READ_BY_LIBRARIES) and not name.startswith(READ_LATER)
    }
    compared = sorted((names | loaded.absent | OFTEN_SET) - APPLIED_AGAIN)
    for name in compared:
        if given.get(name) != loaded.environment.get(name):
            return f"{name} is {given.get(name)!r}, here {loaded.environment.get(name)!r}"
    threads = given.get("OMP_NUM_THREADS", "1")
    return "" if threads.isdigit() and int(threads) > 0 else f"OMP_NUM_THREADS is {threads!r}"


def _shadows(kind: str, target: str, environment: Environment, loaded: Loaded) -> str:
    """A file beside the program that bears the name of a module that is loaded already."""
    own = os.path.dirname(os.path.realpath(target)) if kind == "file" else "."
    more = os.fsdecode(environment.get(b"PYTHONPATH", b""))
    for folder in {own, *(more.split(":") if more else ())}:
        try:
            hidden = loaded.modules & set(_importable(folder or "."))
        except OSError:
            continue
        if hidden and os.path.realpath(folder) not in loaded.base_path:
            return f"{folder} has its own {', '.join(sorted(hidden))}"
    return ""


def _importable(folder: str) -> list[str]:
    """Names of the modules and packages that lie in a folder."""
    found = []
    for entry in os.listdir(folder):
        name, dot, ending = entry.partition(".")
        inside = os.path.join(folder, entry, "__init__.py")
        if ending.endswith(("py", "pyc", "so")) or (not dot and os.path.exists(inside)):
            found.append(name)
    return found
