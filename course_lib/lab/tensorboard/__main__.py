"""`python -m course_lib.lab.tensorboard`: serves TensorBoard on a Unix socket."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from course_lib.lab.jupyter.parent import exit_with
from course_lib.lab.workspace import find
from course_lib.words import _


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m course_lib.lab.tensorboard")
    parser.add_argument("--socket", required=True, help=_("path of the Unix socket to listen on"))
    parser.add_argument(
        "--parent", type=int, default=os.getppid(), help=_("exit when this process exits")
    )
    options = parser.parse_args(arguments)
    exit_with(options.parent)
    runs = find().runs
    runs.mkdir(parents=True, exist_ok=True)
    open_server(options.socket, build_app(str(runs))).serve_forever()
    return 0


def build_app(logdir: str) -> Callable[..., Any]:
    """Return TensorBoard's app without its server, whose TCP port any user could read."""
    from tensorboard import default, program

    from course_lib.lab.tensorboard.plugin import OfflineProfilerPlugin

    mended = OfflineProfilerPlugin.__mro__[1]
    plugins = [plugin for plugin in default.get_plugins() if plugin is not mended]
    captured: list[Callable[..., Any]] = []

    class Capture(program.TensorBoardServer):  # type: ignore[misc]
        def __init__(self, wsgi_app: Callable[..., Any], flags: Any) -> None:
            captured.append(wsgi_app)

        def serve_forever(self) -> None:
            """Do nothing, because `main` serves."""

        def get_url(self) -> str:
            return ""

    board = program.TensorBoard(plugins=[*plugins, OfflineProfilerPlugin], server_class=Capture)
    flags = ["--logdir", logdir, "--load_fast=false", "--reload_interval=5"]
    board.configure(["tensorboard", *flags, "--window_title=Runs of the course"])
    board.launch()
    return captured[0]


def open_server(socket_path: str, app: Callable[..., Any]) -> BaseWSGIServer:
    """Open a private socket in the private folder that jupyter-server-proxy has created."""
    os.umask(0o077)
    Path(socket_path).unlink(missing_ok=True)  # our own socket from before a restart
    return make_server(f"unix://{socket_path}", 0, app, threaded=True, request_handler=_Quiet)


class _Quiet(WSGIRequestHandler):
    """Logs only errors, because the page sends requests every few seconds."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        if str(code).startswith("5"):
            super().log_request(code, size)


if __name__ == "__main__":
    raise SystemExit(main())
