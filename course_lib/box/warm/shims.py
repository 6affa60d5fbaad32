"""Which commands of a job are started warm, and the script that stands in for them."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from course_lib.box.processes import detached
from course_lib.box.warm.loaded import Loaded

SCRIPT = "python"
LONGEST_SHEBANG = 200  # the kernel reads 255 bytes of the first line


@dataclass(frozen=True)
class Shims:
    loaded: Loaded | None = None
    """What the warm process had loaded whose forks the processes of this job are; None: cold."""
    interpreters: tuple[str, ...] = ()
    """Paths that start the interpreter that we run ourselves."""
    covered: tuple[str, ...] = ()
    """Those of them that the nodes see replaced by `script`; only in namespaces."""
    script: str = ""


def interpreters() -> tuple[str, ...]:
    folder = os.path.dirname(sys.executable)
    names = ("python", "python3", f"python3.{sys.version_info.minor}")
    paths = (os.path.join(folder, name) for name in names)
    mine = os.path.realpath(sys.executable)
    return tuple(path for path in paths if os.path.realpath(path) == mine)


def make(folder: str, separate: bool, loaded: Loaded) -> Shims:
    """Writes the stand-in of a job into its folder."""
    paths = interpreters()
    script = os.path.join(folder, SCRIPT)
    real = os.path.realpath(sys.executable)
    # An interpreter outside of a virtual environment is its own file, which the stand-in needs
    possible = separate and sys.prefix != sys.base_prefix and len(real) < LONGEST_SHEBANG
    if not possible or " " in real or os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return Shims(loaded, paths)
    text = (
        f"#!{real} -IS\n"
        "import os, sys\n"
        "if sys.argv[1:2] == ['-I']:  # the commands of the box: never warm\n"
        f"    os.execv({real!r}, sys.argv)\n"
        f"sys.path.insert(0, {detached.package_root()!r})\n"
        "from course_lib.box.warm import stand_in\n"
        f"stand_in.main({real!r}, {folder!r})\n"
    )
    try:
        with open(script, "w") as file:
            file.write(text)
        os.chmod(script, 0o755)
    except OSError:  # a full disk: Python starts cold
        return Shims(loaded, paths)
    return Shims(loaded, paths, paths, script)
