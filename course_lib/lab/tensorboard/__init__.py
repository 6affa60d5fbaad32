"""TensorBoard beside the notebooks, with the profiler tab, for its user alone and without internet.

The Jupyter server starts `python -m course_lib.lab.tensorboard` on the first click and hands on
the pages; the process listens on a Unix socket in a folder that only its user may enter.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from course_lib.lab.tensorboard.link import Link, tensorboard

__all__ = ["Link", "proxy_entry", "tensorboard"]

STARTUP_LIMIT_S = 60


def proxy_entry() -> dict[str, Any]:
    """What jupyter-server-proxy asks for (entry point `jupyter_serverproxy_servers`)."""
    return {
        "command": _command,
        "unix_socket": True,  # in a new folder of mode 0700
        "timeout": STARTUP_LIMIT_S,
        "absolute_url": False,
        "new_browser_tab": True,
        "launcher_entry": {
            "title": "TensorBoard",
            "icon_path": str(Path(__file__).with_name("web") / "icon.svg"),
            "category": "Notebook",  # JupyterLab draws no icon in any other
        },
    }


def _command(unix_socket: str) -> list[str]:
    """Braces would be taken for fields of jupyter-server-proxy's templates."""
    values = ["--socket", unix_socket, "--parent", str(os.getpid())]
    return [sys.executable.replace("{", "{{").replace("}", "}}"), "-m", __name__, *values]
