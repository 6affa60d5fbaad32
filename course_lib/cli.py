"""The command `course`: one line per subcommand here, with the module that holds it.

Nothing is imported until it is known which is wanted, so that `course --help` is there at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

COMMANDS: dict[str, tuple[str, str]] = {
    "doctor": ("lab.doctor", "says what is wrong on this machine and cluster, and how to cure it"),
    "site": ("lab.commands.site", "lists, shows, chooses and checks descriptions of clusters"),
    "render": ("lab.commands.jobs:render", "prints the batch script of a recipe"),
    "submit": (
        "lab.commands.jobs:submit",
        "submits a recipe or a script; once, however often called",
    ),
    "runs": ("lab.commands.jobs:runs", "lists the runs of this workspace"),
    "queue": ("lab.commands.jobs:queue", "lists your jobs that have not ended"),
    "log": ("lab.commands.jobs:log", "prints the log of a run; -f follows it"),
    "cancel": ("lab.commands.jobs:cancel", "ends runs of this workspace"),
    "clean": ("lab.commands.jobs:clean", "deletes runs of this workspace, after showing which"),
    "budget": ("lab.commands.jobs:budget", "shows or sets how many device-hours may be spent"),
    "shell": ("lab.commands.jobs:shell", "opens a shell in which the cluster's commands are found"),
    "build": ("teach.build", "makes notebooks and solutions from the lessons"),
    "run": ("teach.run", "runs the whole course and prints a table"),
    "lessons": ("teach.lessons", "brings new versions of the lessons; yours are never lost"),
    "progress": ("teach.progress", "shows which exercises are solved"),
    "bench": ("lab.bench.command", "runs or plans the benchmark of lesson 15"),
}
USAGE_ERROR, INTERRUPTED = 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """0: done, 1: done, and the answer is no (a run failed, a check found faults), 2: refused."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        print(overview())
        return 0 if words else USAGE_ERROR
    if words[0] == "--version":
        from course_lib import __version__

        print(f"course {__version__}")
        return 0
    if words[0] not in COMMANDS:
        print(f"course: no command {words[0]!r}\n\n{overview()}", file=sys.stderr)
        return USAGE_ERROR
    return call(words[0], words[1:])


def call(command: str, argv: list[str]) -> int:
    module_name, _, function = COMMANDS[command][0].partition(":")
    run = getattr(import_module(f"course_lib.{module_name}"), function or "main")
    from course_lib.lab.errors import LabError

    try:
        return int(run(argv) or 0)
    except LabError as error:
        print(f"course {command}: {error}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # `course log dp4 | head`
        sys.stderr.close()
        return 0


def overview() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name.ljust(width)}  {what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join(
        ["usage: course COMMAND …", "", *lines, "", "course COMMAND --help tells more."]
    )


if __name__ == "__main__":
    raise SystemExit(main())
