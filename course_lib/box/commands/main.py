"""Starts a command and turns whatever goes wrong into one clear line and an exit code."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from course_lib.box.commands.shared.errors import Failure
from course_lib.box.commands.shared.getopt import UsageError

VERSION = "slurm-wlm 22.05.8"
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from course_lib.box.queue.store import StateError

FOLDER = {
    "salloc": "submit",
    "sbatch": "submit",
    "srun": "submit",
    "squeue": "queries",
    "sinfo": "queries",
    "sacct": "queries",
    "scancel": "control",
    "scontrol": "control",
    "sbcast": "submit",
    "sprio": "queries",
    "sshare": "queries",
    "sstat": "queries",
}
STARTS_JOBS = ("salloc", "sbatch", "srun")
USAGE_CODES = {"salloc": 255, "sbatch": 255, "srun": 255}


def main(command: str, arguments: list[str]) -> int:
    """The exit code of `command arguments`; output is complete when it returns."""
    sys.stdout.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]
    try:
        code = _run(command, arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # a reader such as `head` has enough
        return 141
    except KeyboardInterrupt:
        return 130
    return code


def _run(command: str, arguments: list[str]) -> int:
    if command not in FOLDER:
        return _refuse(command, arguments)
    module = import_module(f"course_lib.box.commands.{FOLDER[command]}.{command}")
    shown = _answer_about_itself(command, arguments, module)
    if shown:
        print(shown)
        return 0
    try:
        if command in STARTS_JOBS:
            _check_folder()
        return int(module.run(arguments))
    except UsageError as error:
        print(error, file=sys.stderr)
        if command not in ("sacct", "sstat"):
            print(f'Try "{command} --help" for more information', file=sys.stderr)
        return USAGE_CODES.get(command, 1)
    except Failure as failure:
        failure.code = _error_code(command, failure.code)
        return _fail(command, failure)
    except BrokenPipeError:
        raise
    except Exception as error:
        return _unforeseen(command, error)


def _error_code(command: str, code: int) -> int:
    """Who starts jobs may choose the code that tells Slurm's own errors from a program's."""
    wish = os.environ.get("SLURM_EXIT_ERROR")
    if command not in STARTS_JOBS or wish is None:
        return code
    number = int(wish) if wish.strip().lstrip("+-").isdecimal() else 0
    if number == 0:
        print(f"{command}: error: SLURM_EXIT_ERROR has zero value", file=sys.stderr)
    return number & 0xFF or code


def _refuse(command: str, arguments: list[str]) -> int:
    from course_lib.box.commands import refused

    if {"--version", "-V"} & set(arguments[:1]):
        print(VERSION)
        return 0
    try:
        return refused.run(command)
    except Failure as failure:
        return _fail(command, failure)


def _fail(command: str, failure: Failure) -> int:
    sys.stdout.flush()
    for line in failure.lines:
        print(f"{command}: {failure.kind}: {line}", file=sys.stderr)
    return failure.code


def _check_folder() -> None:
    """A job begins where it is submitted."""
    try:
        os.getcwd()
    except OSError as error:
        raise Failure(f"getcwd failed: {error.strerror}", code=255) from None


def _answer_about_itself(command: str, arguments: list[str], module: ModuleType) -> str:
    for word in arguments:
        if word in ("--version", "-V"):
            return VERSION
        if word == "--usage":
            return f"Usage: {module.USAGE}"
        if word == "--help":
            from course_lib.box.commands import helptext

            return helptext.of(command, module.USAGE, getattr(module, "SYNTAX", None))
        if not word.startswith("-"):
            break
    return ""


def _unforeseen(command: str, error: Exception) -> int:
    """State or settings that cannot be used; anything else is a fault of the box and is kept."""
    from course_lib.box import settings
    from course_lib.box.processes import disk
    from course_lib.box.queue.store import StateError

    if isinstance(error, settings.SettingsError):
        print(f"{command}: error: {error}", file=sys.stderr)
        return 1
    if isinstance(error, OSError) and disk.is_failing(error):
        error = StateError(str(error))
    if isinstance(error, StateError):
        return _without_state(command, error)
    import traceback

    from course_lib.box.queue import private_folder

    path = os.path.join(settings.state_home(), "faults.log")
    try:
        private_folder.make(settings.state_home())
        with open(path, "a", encoding="utf-8", errors="replace") as log:
            traceback.print_exc(file=log)
    except OSError:
        traceback.print_exc()
    print(
        f"{command}: error: a fault of the box: {error!r}; the trace is in {path}", file=sys.stderr
    )
    return 1


WORDS_OF_SLURM = {
    "salloc": "Job submit/allocate failed: I/O error writing script/environment to file",
    "sbatch": "Batch job submission failed: I/O error writing script/environment to file",
    "srun": "Unable to allocate resources: I/O error writing script/environment to file",
}
"""What slurmctld answers when its own disk is full."""


def _without_state(command: str, error: StateError) -> int:
    from course_lib.box.queue import state_file_advice

    said = "Unable to contact slurm controller (connect failure)"
    if state_file_advice.is_full(error):
        said = WORDS_OF_SLURM.get(command, said)
    print(
        f"{command}: error: {said}\n{command}: note: {state_file_advice.explain(error)}.",
        file=sys.stderr,
    )
    return 1
