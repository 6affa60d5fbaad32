"""The command `course`: one line per subcommand here, with the module that holds it.

Nothing is imported until it is known which is wanted, so that `course --help` is there at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from course_lib.lab.commands import mishaps
from course_lib.lab.commands.mishaps import USAGE_ERROR
from course_lib.words import told

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
    "build": ("teach.building.build", "makes notebooks and solutions from the lessons"),
    "translate": (
        "teach.translation.command",
        "shows what is translated into another language, and begins one",
    ),
    "run": ("teach.run", "runs the whole course and prints a table"),
    "book": ("teach.book.command", "makes pages to read of the lessons, with results of a run"),
    "slides": ("teach.slides.command", "makes slides of the lessons, a deck for each part"),
    "timetable": ("teach.slides.timetable", "prints plans for half a day, a day and three days"),
    "record": ("teach.recording", "packs runs into files, for those who cannot run anything"),
    "lessons": ("teach.lessons", "brings new versions of the lessons; yours are never lost"),
    "progress": ("teach.progress", "shows which exercises are solved"),
    "share": ("teach.classroom.command:share", "shares your progress with the class, or not"),
    "class": (
        "teach.classroom.command",
        "shows instructors how the class stands, and who is stuck",
    ),
    "rehearse": ("teach.rehearsal.command", "tries the class's jobs on its site, the day before"),
    "cards": ("teach.cards.command", "makes a page of commands for each lesson, to be printed"),
    "bench": ("lab.bench.command", "runs or plans the benchmark of lesson 15"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """0: done, 1: done, and the answer is no (a run failed, a check found faults), 2: refused."""
    words = list(sys.argv[1:] if argv is None else argv)
    mishaps.any_text_can_be_written()
    try:
        try:
            code = answer(words)
        finally:
            mishaps.flush()
    except (Exception, KeyboardInterrupt) as error:
        return mishaps.tell(words[0] if words else "", error)
    return code


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
    module_name, _, function = COMMANDS[command][0].partition(":")
    run = getattr(import_module(f"course_lib.{module_name}"), function or "main")
    return int(run(argv) or 0)


def suggestion(word: str) -> str:
    """The command that was probably meant; all of them where none is near."""
    from course_lib.mistakes.names import near

    begun = [name for name in COMMANDS if word and name.startswith(word)]
    if meant := begun or near(word[:40], COMMANDS, most=1):
        return f"; did you mean {' or '.join(f'`course {name}`' for name in meant)}?"
    return f"\n\n{overview()}"


def overview() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name.ljust(width)}  {told(what)}" for name, (_, what) in COMMANDS.items()]
    more = told("course COMMAND --help tells more.")
    return "\n".join([told("usage: course COMMAND …"), "", *lines, "", more])


if __name__ == "__main__":
    raise SystemExit(main())
