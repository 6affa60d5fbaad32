"""Entry point of the box's commands. Every error becomes one clear line and an exit code."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from course_lib.box.commands.command_line import AboutItself, Failure, Unsupported, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from course_lib.box.commands.command_line import Syntax


def help_of(command: str, usage: str, syntax: Syntax) -> str:
    """Return the usage, one line per option, and the address of the manual."""
    letters = {long: letter for letter, long in syntax.short.items()}
    lines = [usage, "", f"This {command} of the box works like {command} of Slurm 22.05."]
    lines += ["It refuses options that it does not support, and names them.", "", "Options:"]
    for name, kind in syntax.kind.items():
        short = f"-{letters[name]}, " if name in letters else "    "
        lines.append(f"  {short}--{name}{('', '=VALUE', '[=VALUE]')[kind]}")
    lines += ["", f"See https://slurm.schedmd.com/archive/slurm-22.05.8/{command}.html"]
    return "\n".join(lines)


VERSION = "slurm-wlm 22.05.8"
COMMANDS = ("sacct", "salloc", "sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun", "sstat")
STARTS_JOBS = ("salloc", "sbatch", "srun")
USAGE_CODES = {"salloc": 255, "sbatch": 255, "srun": 255}


def main(command: str, arguments: list[str]) -> int:
    """Run a command and return its exit code. The output is complete on return."""
    sys.stdout.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]
    try:
        code = _run(command, arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # a reader such as `head` has closed the pipe
        return 141
    except KeyboardInterrupt:
        return 130
    return code


def _run(command: str, arguments: list[str]) -> int:
    if command not in COMMANDS:
        return _fail(command, Unsupported(command))
    folder = "commands.submit" if command in STARTS_JOBS else "commands"
    module = import_module(f"course_lib.box.{folder}.{command}")
    try:
        if command in STARTS_JOBS:
            _check_folder()
        return int(module.run(arguments))
    except AboutItself as asked:
        usage = f"Usage: {module.USAGE}"
        full = help_of(command, usage, asked.syntax) if asked.what == "help" else usage
        print(VERSION if asked.what == "version" else full)
        return 0
    except UsageError as error:
        print(error, file=sys.stderr)
        if command not in ("sacct", "sstat"):
            print(f'Try "{command} --help" for more information', file=sys.stderr)
        return USAGE_CODES.get(command, 1)
    except Failure as failure:
        return _fail(command, failure)
    except BrokenPipeError:
        raise
    except Exception as error:
        return _unforeseen(command, error)


def _fail(command: str, failure: Failure) -> int:
    sys.stdout.flush()
    for line in failure.lines:
        print(f"{command}: {failure.kind}: {line}", file=sys.stderr)
    return failure.code


def _check_folder() -> None:
    """Fail if the working folder is gone, because a job starts where it is submitted."""
    try:
        os.getcwd()
    except OSError as error:
        raise Failure(f"getcwd failed: {error.strerror}", code=255) from None


def _unforeseen(command: str, error: Exception) -> int:
    """Report unusable state or settings. Any other error is a fault of the box and is logged."""
    from course_lib.box import settings, state_folder
    from course_lib.box.queue.store import StateError, explain

    if isinstance(error, settings.SettingsError):
        print(f"{command}: error: {error}", file=sys.stderr)
        return 1
    if isinstance(error, OSError) and state_folder.is_failing(error):
        error = StateError(str(error))
    if isinstance(error, StateError):
        said = "Unable to contact slurm controller (connect failure)"
        print(f"{command}: error: {said}\n{command}: note: {explain(error)}.", file=sys.stderr)
        return 1
    import traceback

    path = os.path.join(settings.state_home(), "faults.log")
    try:
        state_folder.make_private(settings.state_home())
        with open(path, "a", encoding="utf-8", errors="replace") as log:
            traceback.print_exc(file=log)
    except OSError:
        traceback.print_exc()
    said = f"error: defect of the box: {error!r} (traceback in {path})"
    print(f"{command}: {said}", file=sys.stderr)
    return 1
