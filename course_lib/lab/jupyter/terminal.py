"""`python -P -m course_lib.lab.jupyter.terminal`: the shell of a terminal in JupyterLab.

`course`, and on the box `squeue` and the others, are found in it. Files that a shell reads when it
starts (`/etc/profile`, `~/.bashrc`) may set PATH anew, so a profile of the course reads these and
puts its own folders in front afterwards. No file of the user's is touched.
"""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

from course_lib.lab import clusters
from course_lib.lab.errors import LabError
from course_lib.lab.job.site import Site
from course_lib.lab.workspace import find

PROFILES = Path(__file__).with_name("profiles")
FOLDERS = "COURSE_TERMINAL_PATH"


def main() -> int:
    site = chosen_site()
    environment = prepared(dict(os.environ), folders(site))
    shell = environment.get("SHELL") or pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    arguments, more = command(shell, environment)
    try:
        if site:
            more |= clusters.python_of_box(site, environment)
        os.execvpe(arguments[0], arguments, environment | more)
    except OSError as error:
        print(f"{shell} cannot be started: {error.strerror}", file=sys.stderr)
        os.execve("/bin/sh", ["/bin/sh"], environment)


def chosen_site() -> Site | None:
    try:
        return clusters.choose(find()).site
    except LabError as error:
        print(f"course: {error}", file=sys.stderr)
        return None


def folders(site: Site | None) -> list[str]:
    """Where the commands of the course lie, and the box's where notebooks use the box."""
    here = [str(Path(sys.executable).parent)]
    commands = clusters.commands_of(site) if site else None
    return [str(commands), *here] if commands else here


def prepared(environment: dict[str, str], wanted: list[str]) -> dict[str, str]:
    """The folders stand in front, and the box's nowhere else: a real Slurm must not be hidden."""
    known = {*wanted, str(clusters.box_bin()), str(clusters.RECORDED_BIN)}
    before = environment.get("PATH", os.defpath).split(os.pathsep)
    path = [*wanted, *(folder for folder in before if folder not in known)]
    return {
        **environment,
        "PATH": os.pathsep.join(path),
        FOLDERS: os.pathsep.join(wanted),
    }


def command(shell: str, environment: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """How the shell is started so that it reads the course's profile last, and with which
    variables more. Shells that are not known here get the PATH alone."""
    name = Path(shell).name
    if name == "bash":
        return [shell, "--rcfile", str(PROFILES / "bashrc"), "-i"], {}
    if name == "zsh":
        own = environment.get("ZDOTDIR") or str(Path.home())
        return [shell, "-l"], {"ZDOTDIR": str(PROFILES / "zsh"), "COURSE_ZDOTDIR": own}
    if name == "fish":
        return [shell, "-l", "-C", f"set -gx PATH (string split : ${FOLDERS}) $PATH"], {}
    return [shell], {}


if __name__ == "__main__":
    sys.exit(main())
