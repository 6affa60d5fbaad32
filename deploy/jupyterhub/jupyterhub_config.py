"""JupyterHub on one machine: users log in with their accounts on the machine and get the course.

For a login node, or a server for a class. The first lines contain the settings for the admin."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from jupyterhub.spawner import LocalProcessSpawner

PORT = 8000
# Names of the accounts that may log in; empty: every account of this machine.
USERS: set[str] = set()
# Limit per user, threads included: a training process of torch has about thirty.
PROCESSES = 2000
# Data memory of one process; a device slot of the box and the notebook kernel must fit.
PROCESS_GIB = 8
# Size of one file: a log or checkpoint that grows for ever ends here.
FILE_GIB = 20
# Totals of one user; enforced if systemd runs (see README.md).
MEMORY_GIB, CPUS = 12, 4.0
# A kernel ends after this time without use; a server ends after this time without a kernel,
# terminal or page. Jobs of the box continue, unless systemd counts them to the server (see
# README.md).
IDLE_S = 2 * 3600
# False if learners pull the lessons with nbgitpuller.
COURSE_COPY_LESSONS = True
# Such as /srv/course-class: learners who agree show the instructors their progress there.
CLASS_FOLDER = ""
# Names of the accounts that see the class; the hub keeps them in a group of the machine.
INSTRUCTORS: set[str] = set()
# True if the class has agreed to share its progress. Each learner is told, and can stop it.
CLASS_HAS_AGREED = False
# True if the instructors may see on the hub's page hub/admin who works, and start and end servers.
# They cannot open a learner's server.
INSTRUCTORS_ARE_ADMINS = False

here = Path(__file__).resolve().parent
environment = Path(sys.prefix)
c = get_config()  # type: ignore[name-defined]  # noqa: F821

# The hub's files here (sessions, hashes of tokens) are private, even if an older hub left them
# open.
os.umask(0o077)
for kept in ("jupyterhub.sqlite", "jupyterhub_cookie_secret"):
    if Path(kept).exists():
        Path(kept).chmod(0o600)

c.JupyterHub.bind_url = f"http://127.0.0.1:{PORT}"
c.ConfigurableHTTPProxy.command = [
    str(environment / "share/course/hub/node_modules/.bin/configurable-http-proxy")
]
c.JupyterHub.cookie_secret_file = "jupyterhub_cookie_secret"

c.JupyterHub.authenticator_class = "pam"
c.PAMAuthenticator.open_sessions = False
c.Authenticator.allowed_users = USERS
c.Authenticator.allow_all = not USERS

c.Spawner.cmd = [str(here / "start_user.sh")]
c.Spawner.default_url = "/lab/tree/notebooks/00_the_lab.ipynb"
c.Spawner.notebook_dir = "~/course"
c.Spawner.start_timeout = c.Spawner.http_timeout = 120
c.Spawner.env_keep = ["LANG", "LC_ALL", "SLURM_CONF"]
c.Spawner.environment = {
    "COURSE_USER_PROCESSES": str(PROCESSES),
    "COURSE_USER_PROCESS_GIB": str(PROCESS_GIB),
    "COURSE_USER_FILE_GIB": str(FILE_GIB),
    "COURSE_COPY_LESSONS": str(int(COURSE_COPY_LESSONS)),
}
if CLASS_FOLDER:  # the group is set anew, so that former instructors lose access
    course = [str(environment / "bin/course"), "class", "make", CLASS_FOLDER]
    of_the_group = ["--group", "course-instructors", "--members", ",".join(sorted(INSTRUCTORS))]
    subprocess.run([*course, *of_the_group], check=True)
    c.Spawner.environment["COURSE_CLASS"] = CLASS_FOLDER
    if CLASS_HAS_AGREED:
        c.Spawner.environment["COURSE_CLASS_AGREED"] = "yes"

tried = [sys.executable, str(here / "access.py"), f"--class={CLASS_FOLDER}"]
if subprocess.run([*tried, *sorted(USERS)], check=False).returncode:
    sys.exit("hub: not started, since no learner could start a server")

c.Spawner.args = [
    f"--MappingKernelManager.cull_idle_timeout={IDLE_S}",
    "--MappingKernelManager.cull_connected=True",
    "--MappingKernelManager.cull_busy=False",
]

c.JupyterHub.services = [
    {
        "name": "idle-culler",
        "command": [sys.executable, "-m", "jupyterhub_idle_culler", f"--timeout={IDLE_S}"],
    }
]
c.JupyterHub.load_roles = [
    {
        "name": "idle-culler",
        "services": ["idle-culler"],
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
    }
]

if INSTRUCTORS_ARE_ADMINS:
    # Without access:servers, which the hub's own admins have: it would let an instructor act as a
    # learner, and read what the learner has not agreed to share.
    c.JupyterHub.load_roles.append(
        {
            "name": "instructor",
            "users": sorted(INSTRUCTORS),
            "scopes": ["admin-ui", "list:users", "read:users", "servers"],
        }
    )

spawner: Any = LocalProcessSpawner
if Path("/run/systemd/system").is_dir() and importlib.util.find_spec("systemdspawner"):
    from systemdspawner import SystemdSpawner as spawner

    c.SystemdSpawner.mem_limit = f"{MEMORY_GIB}G"
    c.SystemdSpawner.cpu_limit = CPUS
    c.SystemdSpawner.isolate_tmp = True


class ServerEnded(Exception):
    """Carries its message to the page on which a learner waits."""

    jupyterhub_message = "The server ended before it answered. The hub's log has its messages."


class CourseSpawner(spawner):
    """Tell a learner at once that a server has ended. JupyterHub waits for its time-out."""

    async def start(self) -> tuple[str, int]:
        where: tuple[str, int] = await super().start()
        while not await asyncio.to_thread(_listens, *where):
            if await self.poll() is not None:
                raise ServerEnded(ServerEnded.jupyterhub_message)
            await asyncio.sleep(0.5)
        return where


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host or "127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


c.JupyterHub.spawner_class = CourseSpawner
