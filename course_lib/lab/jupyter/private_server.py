"""Servers beside a Jupyter server: private to their user, started at the first click on a tile.

jupyter-server-proxy runs `python -m MODULE --socket …` and forwards the pages. The server listens
on a Unix socket, because other users could read a TCP port. It ends with the Jupyter server.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.words import _

if TYPE_CHECKING:
    from werkzeug.serving import BaseWSGIServer

TIDYING_LIMIT_S = 10


def proxy_entry(module: str, **launcher_entry: Any) -> dict[str, Any]:
    """Return the entry for jupyter-server-proxy (entry point `jupyter_serverproxy_servers`)."""
    python = sys.executable.replace("{", "{{").replace("}", "}}")  # its templates have braces

    def command(unix_socket: str) -> list[str]:
        return [python, "-m", module, "--socket", unix_socket, "--parent", str(os.getpid())]

    return {
        "command": command,
        "unix_socket": True,  # in a new folder of mode 0700
        "timeout": 180,
        "absolute_url": False,
        "new_browser_tab": True,
        # JupyterLab draws icons only in this category.
        "launcher_entry": {"category": "Notebook", **launcher_entry},
    }


def serve(module: str, build_app: Callable[[], Callable[..., Any]]) -> None:
    """Serve an app with the options of `proxy_entry`, until the parent process ends."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--socket", required=True, help=_("path of the Unix socket to listen on"))
    parser.add_argument(
        "--parent", type=int, default=os.getppid(), help=_("exit when this process exits")
    )
    options = parser.parse_args()
    exit_with(options.parent)
    open_server(options.socket, build_app()).serve_forever()


def open_server(socket_path: str, app: Callable[..., Any]) -> BaseWSGIServer:
    """Open a private socket in the private folder that jupyter-server-proxy has created."""
    from werkzeug.serving import make_server

    # Only errors, because pages send requests every few seconds.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    os.umask(0o077)
    Path(socket_path).unlink(missing_ok=True)  # our own socket from before a restart
    return make_server(f"unix://{socket_path}", 0, app, threaded=True)


def exit_with(parent_pid: int) -> None:
    """End this process within a second of its parent's end, and remove temporary files.

    The parent is polled, because macOS has no PR_SET_PDEATHSIG. That signal would also fire when
    only the parent's thread ends. A SIGTERM from the Jupyter server ends the process in the same
    way.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))

    def watch() -> None:
        while os.getppid() == parent_pid:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)  # the main thread cleans up
        time.sleep(TIDYING_LIMIT_S)
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
