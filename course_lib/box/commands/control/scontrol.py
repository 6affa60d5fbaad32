"""scontrol: look closely at jobs, nodes and partitions, and change waiting jobs."""

from __future__ import annotations

import sys

from course_lib.box.commands.control import scontrol_change, scontrol_show
from course_lib.box.commands.main import VERSION
from course_lib.box.commands.shared.errors import Failure, Unsupported
from course_lib.box.commands.shared.getopt import Syntax

USAGE = "scontrol [options] [command]"
SYNTAX = Syntax(
    "scontrol",
    "all,a cluster,M= clusters= details,d future,F help,h hide local federation oneliner,o quiet,Q"
    " sibling uid,u= usage verbose,v version,V json yaml",
)
REFUSED = """
abort cancel_reboot cluster create delete fsdampeningfactor listpids notify pidinfo reboot
reconfigure resume schedloglevel setdebug setdebugflags shutdown suspend takeover token top wait_job
"""


class Request:
    """What is left of the command line, with the switches of the output."""

    def __init__(self, words: list[str], options: dict[str, str]) -> None:
        self.words = words
        self.one_line = "oneliner" in options
        self.details = "details" in options
        self.quiet = "quiet" in options


def run(arguments: list[str]) -> int:
    pairs, words = SYNTAX.parse(arguments)
    options = {name: value or "" for name, value in pairs}
    for name in ("clusters", "cluster", "json", "yaml", "uid", "federation", "sibling"):
        if name in options:
            raise Unsupported(f"--{name}")
    if words:
        return _command(Request(words, options))
    for line in sys.stdin:
        if line.split()[:1] in (["exit"], ["quit"], ["q"]):
            break
        if line.strip():
            _command(Request(line.split(), options))
    return 0


def _command(request: Request) -> int:
    word = _keyword(request.words[0].lower())
    if word == "show":
        return scontrol_show.show(request)
    if word in scontrol_change.COMMANDS:
        return scontrol_change.COMMANDS[word](request)
    if word in SAYINGS:
        print(SAYINGS[word]())
        return 0
    if word == "completing":
        return 0
    if word == "write":
        return scontrol_show.write(request)
    if word in REFUSED.split():
        raise Unsupported(f"scontrol {word}")
    print(f"invalid keyword: {request.words[0]}", file=sys.stderr)
    raise Failure()


def _keyword(word: str) -> str:
    """As written, or what a beginning of three letters or more can only mean."""
    known = ["show", "write", "completing", *scontrol_change.COMMANDS, *SAYINGS, *REFUSED.split()]
    meant = {name for name in known if name.startswith(word)}
    return meant.pop() if word not in known and len(word) > 2 and len(meant) == 1 else word


def _help() -> str:
    from course_lib.box.commands import helptext

    return helptext.of("scontrol", USAGE, SYNTAX)


SAYINGS = {"version": lambda: VERSION, "ping": scontrol_show.ping, "help": _help}
