"""sprio: what a job's priority is made of. Here nothing: the first come is the first served."""

from __future__ import annotations

import sys

from course_lib.box.commands.shared.errors import Failure
from course_lib.box.commands.shared.getopt import Syntax

USAGE = "sprio [options]"
SYNTAX = Syntax(
    "sprio",
    "noheader,h help jobs,j= long,l clusters,M= norm,n format,o= partition,p= sort,S= sibling local"
    " federation usage user,u= verbose,v version,V weights,w",
)


def run(arguments: list[str]) -> int:
    SYNTAX.parse(arguments)
    print(
        "You are not running a supported priority plugin\n(priority/basic).\n"
        "Only 'priority/multifactor' is supported.",
        file=sys.stderr,
    )
    raise Failure()
