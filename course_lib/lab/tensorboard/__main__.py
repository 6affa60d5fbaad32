"""`python -m course_lib.lab.tensorboard`: serves TensorBoard on a Unix socket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.lab.jupyter.private_server import serve
from course_lib.lab.workspace import find


def app() -> Callable[..., Any]:
    """Return TensorBoard's app without its server, whose TCP port any user could read."""
    from tensorboard import default, program

    from course_lib.lab.tensorboard.plugin import OfflineProfilerPlugin

    runs = find().runs
    runs.mkdir(parents=True, exist_ok=True)
    mended = OfflineProfilerPlugin.__mro__[1]
    plugins = [plugin for plugin in default.get_plugins() if plugin is not mended]
    captured: list[Callable[..., Any]] = []

    class Capture(program.TensorBoardServer):  # type: ignore[misc]
        def __init__(self, wsgi_app: Callable[..., Any], flags: Any) -> None:
            captured.append(wsgi_app)

        def serve_forever(self) -> None:
            """Do nothing, because `serve` does this."""

        def get_url(self) -> str:
            return ""

    board = program.TensorBoard(plugins=[*plugins, OfflineProfilerPlugin], server_class=Capture)
    flags = ["--logdir", str(runs), "--load_fast=false", "--reload_interval=5"]
    board.configure(["tensorboard", *flags, "--window_title=Runs of the course"])
    board.launch()
    return captured[0]


if __name__ == "__main__":
    serve("course_lib.lab.tensorboard", app)
