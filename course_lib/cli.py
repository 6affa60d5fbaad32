"""The command `course`: one entry per subcommand, with its module.

The module of a subcommand is imported only when needed, so that `course --help` is fast.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

from course_lib.words import N_, _

USAGE_ERROR, INTERRUPTED = 2, 130
COMMANDS: dict[str, tuple[str, str]] = {
    "doctor": (
        "lab.doctor.command",
        N_("finds problems of this machine and cluster, and shows how to solve them"),
    ),
    "site": ("lab.commands.site", N_("lists, shows and chooses descriptions of clusters")),
    "plan": (
        "lab.commands.plan",
        N_("plans a training run: the best layouts, their days, costs and memory"),
    ),
    "render": ("lab.commands.jobs:render", N_("prints the batch script of a recipe")),
    "submit": (
        "lab.commands.jobs:submit",
        N_("submits a recipe or a script, unless it has run already"),
    ),
    "runs": ("lab.commands.jobs:runs", N_("lists the runs of this workspace")),
    "log": ("lab.commands.jobs:log", N_("prints the log of a run; -f follows it")),
    "read": (
        "read.file_contents",
        N_("shows what a log or a trace contains, even if a different program wrote it"),
    ),
    "cancel": ("lab.commands.jobs:cancel", N_("ends runs of this workspace")),
    "clean": ("lab.commands.jobs:clean", N_("lists runs to delete, and deletes them with --yes")),
    "budget": ("lab.commands.jobs:budget", N_("shows or sets the limit of device-hours")),
    "shell": (
        "lab.commands.jobs:shell",
        N_("opens a shell that finds the cluster's commands"),
    ),
    "build": ("publish.building.build", N_("makes notebooks and solutions from the lessons")),
    "translate": (
        "publish.translation.command",
        N_("starts or updates a translation, or shows what is missing"),
    ),
    "run": ("publish.run", N_("runs all lessons with their jobs, and prints a table of claims")),
    "book": (
        "publish.book.command",
        N_("makes a website of the lessons, with the results of a course run"),
    ),
    "slides": ("publish.slides.site", N_("makes slides of the lessons, one deck for each part")),
    "timetable": (
        "publish.slides.timetable",
        N_("prints plans for half a day, a day and five days"),
    ),
    "record": ("publish.recording", N_("packs runs into files, to replay them elsewhere")),
    "start": (
        "classroom.start",
        N_("makes a folder with the lessons, and opens JupyterLab on it"),
    ),
    "lessons": (
        "classroom.lessons",
        N_("copies new versions of the lessons, and keeps notebooks that you changed"),
    ),
    "progress": ("teach.progress", N_("shows which exercises you have solved")),
    "class": (
        "classroom.command",
        N_("shows instructors the progress of the class, and who is stuck"),
    ),
    "rehearse": (
        "classroom.rehearsal",
        N_("tests the jobs of a class on the cluster, the day before"),
    ),
    "cards": (
        "publish.cards",
        N_("makes a page of commands for each lesson, for printing"),
    ),
    "bench": ("lab.bench.command", N_("runs or plans the benchmark of lesson 15")),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand. Return 0 for success, 1 for a negative result, 2 for a refusal. A negative
    result means that a run failed or a check found faults."""
    words = list(sys.argv[1:] if argv is None else argv)
    any_text_can_be_written()
    if argv is None:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `course log dp4 | head` ends as cat does
    try:
        return answer(words)
    except (Exception, KeyboardInterrupt) as error:
        return tell(words[0] if words else "", error)


def tell(command: str, error: BaseException) -> int:
    """Print an error and return the exit code. Re-raise unexpected errors."""
    from course_lib.mistakes.errors import CourseError

    if isinstance(error, CourseError):
        return refuse(f"course {command}: {error}")
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, OSError) and error.strerror:
        place = f": {error.filename}" if error.filename else ""
        return refuse(f"course {command}: {error.strerror}{place}")
    raise error


def refuse(text: str) -> int:
    """Print a refusal and return its exit code, even if the terminal has been closed."""
    from course_lib.read.prefix import visible

    with contextlib.suppress(OSError):
        print(visible(text), file=sys.stderr)
    return USAGE_ERROR


def any_text_can_be_written() -> None:
    """Make a terminal whose encoding lacks ✓ or é print a replacement instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace" if stream is sys.stderr else "replace")


def answer(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(overview())
        return 0 if words else USAGE_ERROR
    if words[0] == "--version":
        from course_lib import __version__

        print(f"course {__version__}")
        return 0
    if words[0] not in COMMANDS:
        print(f"course: no command {words[0]!r}{suggestion(words[0])}", file=sys.stderr)
        return USAGE_ERROR
    return call(words[0], words[1:])


def call(command: str, argv: list[str]) -> int:
    module_name, _unused, function = COMMANDS[command][0].partition(":")
    run = getattr(import_module(f"course_lib.{module_name}"), function or "main")
    return int(run(argv) or 0)


def suggestion(word: str) -> str:
    """Return the command that was probably meant, or the overview if no name is similar."""
    from course_lib.mistakes.names import near

    begun = [name for name in COMMANDS if word and name.startswith(word)]
    if meant := begun or near(word[:40], COMMANDS, most=1):
        return _("; did you mean {value}?", value=" or ".join(f"`course {name}`" for name in meant))
    return f"\n\n{overview()}"


def overview() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name.ljust(width)}  {what}" for name, (_unused, what) in COMMANDS.items()]
    more = _("course COMMAND --help explains a command.")
    return "\n".join([_("usage: course COMMAND …"), "", *lines, "", more])


if __name__ == "__main__":
    raise SystemExit(main())
