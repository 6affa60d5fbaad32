"""Commands that do in a terminal what a notebook does with a `Lab`."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from course_lib.lab.commands.common import (
    WHAT,
    add_site,
    count,
    parser,
    recipe_of,
    which,
)
from course_lib.lab.errors import LabError
from course_lib.lab.lab import Lab
from course_lib.lab.queue.slurm import UNKNOWN
from course_lib.lab.runs.run import Run
from course_lib.lab.runs.tables import RUN_COLUMNS, plain
from course_lib.read.prefix import visible
from course_lib.words import _

GLANCE_S = 0.3


def render(argv: list[str]) -> int:
    options = parser("render", _("Prints the batch script exactly as it would be submitted."), WHAT)
    options.add_argument("what", help=_("see below"))
    add_site(options)
    given = options.parse_args(argv)
    lab = Lab(site=given.site, quiet=True)
    print(lab.script(recipe_of(given.what, lab)), end="")
    return 0


def submit(argv: list[str]) -> int:
    options = parser(
        "submit",
        _("Submits a recipe. A recipe that has already run here is not submitted again."), WHAT,
    )  # fmt: skip
    options.add_argument("what", help=_("see below"))
    options.add_argument("--again", action="store_true", help=_("submit even if it has run before"))
    options.add_argument(
        "--watch",
        action="store_true",
        help=_("wait for the end; the exit code is 1 if the run fails"),
    )
    add_site(options)
    given = options.parse_args(argv)
    lab = Lab(site=given.site)
    run = lab.submit(recipe_of(given.what, lab), again=given.again)
    if not given.watch or not isinstance(run, Run):
        return 0
    run.watch()
    if error := run.error:
        print(f"\n{visible(error)}")
    return 0 if run.ok else 1


def runs(argv: list[str]) -> int:
    options = parser("runs", _("Lists the runs of this workspace, the newest first."))
    options.add_argument("-n", "--last", type=count, default=0, help=_("only this many runs"))
    given = options.parse_args(argv)
    lab = Lab(quiet=True)
    rows = lab.run_rows()
    print(plain(RUN_COLUMNS, rows[: given.last or None]) if rows else _("no runs yet"))
    return 0


def log(argv: list[str]) -> int:
    options = parser("log", _("Prints the log of a run. The exit code is 1 if the run failed."))
    options.add_argument("run", help=_("name or job id"))
    options.add_argument(
        "-n", "--lines", type=count, default=0, help=_("print only the last LINES lines")
    )
    options.add_argument("-f", "--follow", action="store_true", help=_("print until the run ends"))
    given = options.parse_args(argv)
    lab = Lab(quiet=True)
    run = lab.run(which(given.run))
    if given.follow:
        return _follow(run, given.lines)
    print(run.tail(given.lines or sys.maxsize))
    return 0 if not run.ended or run.ok else 1


def _follow(run: Run, lines: int) -> int:
    """Print the log so far and each new line, then one line about the end."""
    if lines:
        print(run.tail(lines))
    position = run.log_file.stat().st_size if lines and run.log_file.exists() else 0
    while True:
        is_over = run.ended or run.state == UNKNOWN
        if run.log_file.is_file():
            with run.log_file.open("rb") as file:
                file.seek(position)
                while (line := file.readline()).endswith(b"\n") or (line and is_over):
                    print(visible(line.decode("utf-8", "replace")), end="", flush=True)
                    position += len(line)
        if is_over:
            print(f"{run.name}: {run.reason}", file=sys.stderr)
            return 0 if run.ok else 1
        run.pause(GLANCE_S)


def cancel(argv: list[str]) -> int:
    options = parser("cancel", _("Cancels runs of this workspace. For other jobs, use scancel."))
    options.add_argument("run", nargs="+", help=_("name or job id"))
    given = options.parse_args(argv)
    Lab().cancel([which(word) for word in given.run])
    return 0


def clean(argv: list[str]) -> int:
    options = parser(
        "clean",
        _(
            "Lists the runs of this workspace that would be deleted. With --yes, deletes "
            "them.\nDeletes only what the course made. Without names, it selects all runs "
            "that have ended."
        ),
    )
    options.add_argument("run", nargs="*", help=_("name or job id"))
    options.add_argument("--yes", action="store_true", help="delete the listed runs")
    given = options.parse_args(argv)
    lab = Lab(quiet=True)
    done = lab.clean(*(which(word) for word in given.run), yes=given.yes)
    print(done.words("the same command with --yes"))
    return 0


def budget(argv: list[str]) -> int:
    options = parser("budget", _("Shows the used device-hours of this workspace, or sets a limit."))
    options.add_argument("hours", nargs="?", help=_('the new limit, or "none" to remove the limit'))
    given = options.parse_args(argv)
    lab = Lab(quiet=True)
    if given.hours is not None:
        try:
            limit = None if given.hours == "none" else float(given.hours)
        except ValueError:
            options.error(
                _(
                    '{hours!r} is not a number of device-hours; use a number such as 20, or "none"',
                    hours=given.hours,
                )
            )
        lab.set_budget(limit)
    print(lab.budget.words)
    return 0


def shell(argv: list[str]) -> int:
    options = parser("shell", _("Opens a shell with the cluster's commands on its PATH."))
    options.add_argument("-c", dest="command", help=_("run this command and return"))
    add_site(options)
    given = options.parse_args(argv)
    try:
        lab = Lab(site=given.site, quiet=bool(given.command))
        os.environ["COURSE_WORKSPACE"] = str(lab.workspace)
    except LabError as error:  # a terminal of JupyterLab must open even then
        print(f"course: {error}", file=sys.stderr)
    # Makes `course` and `python` available even if the environment was not activated.
    here = str(Path(sys.executable).parent)
    if here not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] += os.pathsep + here
    program = os.environ.get("SHELL") or shutil.which("bash") or "/bin/sh"
    if given.command:
        os.execl(program, program, "-c", given.command)
    os.execl(program, program)
