"""The commands of the box where every PATH of a job looks.

A login shell, `env -i` and programs that set PATH anew would otherwise find no srun, or that of a
Slurm which is installed beside the box. Nothing is written to the machine: an overlay shows the
commands in front of what lies in those folders, in the namespaces of the job alone. Where there is
none, a file that bash reads before a script brings them back into its PATH.
"""

from __future__ import annotations

import os
import shlex

from course_lib.box.processes import libc
from course_lib.box.processes.log import note

FRONT = "commands"
START_FILE = "bash_env"
START_FILE_OF_USER = b"COURSE_BOX_BASH_ENV"
IN_EVERY_PATH = "/usr/bin"
USUAL_FOLDERS = (
    *("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/sbin", "/bin", "/opt/slurm/bin"),
    *("/usr/local/slurm/bin", "/opt/slurm/current/bin", "/cm/shared/apps/slurm/current/bin"),
)
"""Where a Slurm lies that a login shell may find and this environment does not name."""

COMMAND = """\
#!/bin/sh
# Whoever starts it without the environment of the job is in the job all the same.
[ -n "$COURSE_BOX_HOME" ] || export COURSE_BOX_HOME={home}
[ -n "$COURSE_BOX_PYTHON" ] || export COURSE_BOX_PYTHON={python}
exec {bin}/"${{0##*/}}" "$@"
"""
BASH_ENV = """\
# Read by every bash of a job that runs a script, login shells after their profile.
case ":$PATH:" in
*:{bin}:*) ;;
*) PATH={bin}:"$PATH" ;;
esac
[ ! -r "$COURSE_BOX_BASH_ENV" ] || . "$COURSE_BOX_BASH_ENV"
"""


def write(folder: str, home: str, python: str, bin_folder: str) -> None:
    """Both ways, into the folder of the job."""
    words = {"home": home, "python": python, "bin": bin_folder}
    quoted = {name: shlex.quote(word) for name, word in words.items()}
    front = os.path.join(folder, FRONT)
    os.makedirs(front, exist_ok=True)
    os.chmod(front, 0o755)  # the overlay shows it as the mode of /usr/bin
    first, *others = [os.path.join(front, name) for name in sorted(os.listdir(bin_folder))]
    for path in (first, *others):
        if os.path.exists(path):  # of the job before it was queued again
            os.unlink(path)
    descriptor = os.open(first, os.O_WRONLY | os.O_CREAT, 0o755)
    with open(descriptor, "w") as file:
        file.write(COMMAND.format(**quoted))
    os.chmod(first, 0o755)
    for path in others:
        os.link(first, path)
    with open(os.path.join(folder, START_FILE), "w") as file:
        file.write(BASH_ENV.format(**quoted))


def folders_to_cover(path: str, own: str) -> list[str]:
    """/usr/bin, and whatever else of this PATH or the usual places has commands of a Slurm."""
    names = os.listdir(own)
    found = [IN_EVERY_PATH]
    for folder in [*path.split(":"), *USUAL_FOLDERS]:
        real = os.path.realpath(folder) if folder.startswith("/") else own
        if real in (os.path.realpath(own), *found) or set(real) & set(",:\\"):
            continue
        if any(os.path.lexists(os.path.join(real, name)) for name in names):
            found.append(real)
    return [folder for folder in found if os.path.isdir(folder)]


def cover(folder: str, targets: list[str]) -> bool:
    """In the job's first process; False where a fresh PATH will not find the commands."""
    if not targets:
        return False
    front = os.open(os.path.join(folder, FRONT), os.O_RDONLY | os.O_DIRECTORY)
    done = [_cover_one(folder, front, target) for target in targets]
    os.close(front)
    return all(done)


def _cover_one(folder: str, front: int, target: str) -> bool:
    try:
        lower = f"lowerdir=/proc/self/fd/{front}:{target}"
        libc.mount("overlay", target, "overlay", libc.MS_RDONLY, lower)
    except OSError as error:  # an old kernel, or something else is mounted below the folder
        note(f"the commands of the box cannot be shown in {target}: {error}")
        return _hide_others(os.path.join(folder, FRONT), target)
    return True


def _hide_others(front: str, target: str) -> bool:
    """At least no command of another Slurm answers."""
    for name in os.listdir(front):
        if os.path.lexists(os.path.join(target, name)):
            try:
                libc.mount_over_link(os.path.join(front, name), os.path.join(target, name))
            except OSError as error:
                note(f"{name} of {target} cannot be hidden: {error}")
    return False


def with_start_file(environment: dict[bytes, bytes], path: str) -> dict[bytes, bytes]:
    """Bash reads that file of ours, and the file then that of the user.

    A job that a job submits inherits the file of that one, which is none of the user's.
    """
    given, ours = environment.get(b"BASH_ENV", b""), os.fsencode(path)
    added = {b"BASH_ENV": ours}
    if given and not _is_of_a_job_beside(given, ours):
        added[START_FILE_OF_USER] = given
    return {**environment, **added}


def _is_of_a_job_beside(given: bytes, ours: bytes) -> bool:
    folder, name = os.path.split(given)
    own_folder, own_name = os.path.split(ours)
    return name == own_name and os.path.dirname(folder) == os.path.dirname(own_folder)
