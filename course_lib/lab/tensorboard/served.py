"""Which Jupyter server is ours, and which runs its TensorBoard is to show.

The server has one TensorBoard and may have kernels in several workspaces. A link cell therefore
notes its folder beside the server's own runtime files, and TensorBoard looks there whenever its
page is opened.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote


def server_pid() -> int:
    """Process of the Jupyter server that started this kernel; 0 outside of one."""
    value = os.environ.get("JPY_PARENT_PID", "")
    return int(value) if value.isdigit() else 0


def base_url() -> str:
    """Of the Jupyter server that started this kernel, "" if none did (nbval, a terminal)."""
    prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "")
    if prefix:
        return _slashes(prefix)
    from jupyter_server.serverapp import list_running_servers

    for server in list_running_servers():
        if server.get("pid") == server_pid():
            return _slashes(str(server.get("base_url", "/")))
    return ""


def want(runs: Path) -> None:
    note = _note(server_pid())
    note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    runs.mkdir(parents=True, exist_ok=True)
    note.write_text(str(runs), encoding="utf-8")


def wanted(pid: int) -> Path:
    """The folder noted by the last link cell, else the runs of the server's own workspace."""
    try:
        runs = Path(_note(pid).read_text(encoding="utf-8"))
        if runs.is_dir():
            return runs
    except (OSError, UnicodeDecodeError):
        pass
    from course_lib.lab.workspace import find

    return find().runs


def forget(pid: int) -> None:
    _note(pid).unlink(missing_ok=True)


def _note(pid: int) -> Path:
    from jupyter_core.paths import jupyter_runtime_dir

    return Path(jupyter_runtime_dir()) / f"course-tensorboard-{pid}.txt"


def _slashes(path: str) -> str:
    inner = quote(path.strip("/"), safe="/%@~")
    return f"/{inner}/" if inner else "/"
