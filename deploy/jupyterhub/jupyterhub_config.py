"""A hub on one machine: every user logs in with the account of the machine, and has the course.

Written for a login node, or a server for a class. What an admin changes stands in the first lines.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

PORT = 8000
# Names of the accounts that may come in; empty: every account of this machine.
USERS: set[str] = set()
# Of one user at a time, threads counted: a training process of torch has some thirty.
PROCESSES = 2000
# Memory of data of one process; it must hold a device slot of the box and the notebook kernel.
PROCESS_GIB = 8
# Of one file: a log or checkpoint that grows for ever ends here.
FILE_GIB = 20
# Of one user altogether; enforced where systemd runs (see README.md).
MEMORY_GIB, CPUS = 12, 4.0
# After so long without use a kernel ends, and after so long without a kernel, terminal or page in
# use a server. Jobs of the box go on; not where systemd counts them to the server (see README.md).
IDLE_S = 2 * 3600
# False where learners pull them with nbgitpuller.
COURSE_COPY_LESSONS = True
# Such as /srv/course-class: where learners who agree let the instructors see how far they are.
CLASS_FOLDER = ""
# Names of the accounts that see the class; the hub keeps them in a group of the machine.
INSTRUCTORS: set[str] = set()

here = Path(__file__).resolve().parent
environment = Path(sys.prefix)
c = get_config()  # type: ignore[name-defined]  # noqa: F821

# What the hub keeps here (who is logged in, hashes of tokens) is its own, also where an older hub
# left it open.
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
if CLASS_FOLDER:  # its group is set anew: who is no instructor any more sees nothing any more
    course = [str(environment / "bin/course"), "class", "make", CLASS_FOLDER]
    of_the_group = ["--group", "course-instructors", "--members", ",".join(sorted(INSTRUCTORS))]
    subprocess.run([*course, *of_the_group], check=True)
    c.Spawner.environment["COURSE_CLASS"] = CLASS_FOLDER

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

if Path("/run/systemd/system").is_dir() and importlib.util.find_spec("systemdspawner"):
    c.JupyterHub.spawner_class = "systemd"
    c.SystemdSpawner.mem_limit = f"{MEMORY_GIB}G"
    c.SystemdSpawner.cpu_limit = CPUS
    c.SystemdSpawner.isolate_tmp = True
else:
    c.JupyterHub.spawner_class = "jupyterhub.spawner.LocalProcessSpawner"
