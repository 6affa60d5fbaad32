"""`course shell`: a shell in which `sbatch` and the others are found, on the box too."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from course_lib.lab.commands.common import add_site, parser
from course_lib.lab.lab import Lab


def main(argv: list[str]) -> int:
    options = parser("shell", "Opens a shell with the cluster's commands on its PATH.")
    options.add_argument("-c", dest="command", help="run this and come back")
    add_site(options)
    given = options.parse_args(argv)
    lab = Lab(site=given.site, quiet=bool(given.command))
    # `course` and `python` are to be found as well where the environment was not activated.
    here = str(Path(sys.executable).parent)
    if here not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] += os.pathsep + here
    os.environ["COURSE_WORKSPACE"] = str(lab.workspace)
    shell = os.environ.get("SHELL") or "/bin/sh"
    if given.command:
        os.execl(shell, shell, "-c", given.command)
    print("`exit` comes back.", flush=True)
    os.execl(shell, shell)
