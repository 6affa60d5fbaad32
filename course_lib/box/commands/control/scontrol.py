"""scontrol: look closely at jobs, nodes and partitions, and change waiting jobs."""

from __future__ import annotations

import os
import sys

from course_lib.box.commands.control import scontrol_hold, scontrol_show, scontrol_write
from course_lib.box.commands.control.scontrol_call import ScontrolCall, complain
from course_lib.box.commands.control.scontrol_update import update
from course_lib.box.commands.main import VERSION
from course_lib.box.commands.shared import advice
from course_lib.box.commands.shared.errors import Failure, Unsupported
from course_lib.box.commands.shared.getopt import Syntax

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

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


def run(arguments: list[str]) -> int:
    pairs, words = SYNTAX.parse(arguments)
    options = {name: value or "" for name, value in pairs}
    for name in ("clusters", "cluster", "json", "yaml", "uid", "federation", "sibling"):
        if name in options:
            raise Unsupported(f"--{name}", advice.of_option(name))
    if words:
        return _command(ScontrolCall(words, options))
    for line in sys.stdin:
        if line.split()[:1] in (["exit"], ["quit"], ["q"]):
            break
        if line.strip():
            _command(ScontrolCall(line.split(), options))
    return 0


def _command(call: ScontrolCall) -> int:
    word = _keyword(call.words[0].lower())
    if word in COMMANDS:
        return COMMANDS[word](call)
    if word in REFUSED.split():
        raise Unsupported(f"scontrol {word}", advice.of_scontrol(word))
    complain(f"invalid keyword: {call.words[0]}")
    raise Failure()


def _keyword(word: str) -> str:
    """As written, or what a beginning of three letters or more can only mean."""
    known = [*COMMANDS, *REFUSED.split()]
    meant = [name for name in known if name.startswith(word)]
    return meant[0] if word not in known and len(word) > 2 and len(meant) == 1 else word


def _help() -> str:
    from course_lib.box.commands import helptext

    return helptext.of("scontrol", USAGE, SYNTAX)


def _ping() -> str:
    return f"Slurmctld(primary) at {os.uname().nodename.partition('.')[0]} is UP"


def _say(text: Callable[[], str]) -> Callable[[ScontrolCall], int]:
    def put(_: ScontrolCall) -> int:
        print(text())
        return 0

    return put


COMMANDS: dict[str, Callable[[ScontrolCall], int]] = {
    "show": scontrol_show.show,
    "write": scontrol_write.write,
    "completing": lambda _: 0,  # lists jobs that end too slowly; the box has none
    "hold": scontrol_hold.hold,
    "holdu": scontrol_hold.hold,
    "uhold": scontrol_hold.hold,
    "release": scontrol_hold.release,
    "requeue": scontrol_hold.requeue,
    "requeuehold": scontrol_hold.requeue_and_hold,
    "update": update,
    "version": _say(lambda: VERSION),
    "ping": _say(_ping),
    "help": _say(_help),
}
