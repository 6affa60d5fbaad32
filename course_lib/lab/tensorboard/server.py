"""Serves on a Unix socket at once, and TensorBoard as soon as it has loaded.

Whoever opens the page meanwhile sees that it is loading, and if it fails, why.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

App = Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]
LOADING_LIMIT_S = 120.0

_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8">{refresh}
<title>TensorBoard</title><style>body{{font:16px/1.5 sans-serif;margin:3rem auto;max-width:60rem;
padding:0 1rem;color:#1b1b1b;background:#fff}}pre{{background:#f5f7f9;padding:1rem;overflow:auto}}
</style></head><body><h1>{title}</h1>{body}</body></html>"""


class Board:
    """The WSGI application that answers: first a page that waits, then TensorBoard itself."""

    def __init__(
        self,
        logdir: str,
        wanted: Callable[[], str] | None = None,
        restart: Callable[[], None] | None = None,
        limit_s: float = LOADING_LIMIT_S,
    ) -> None:
        self.logdir = logdir
        self.wanted = wanted or (lambda: logdir)
        self.restart = restart
        self.limit_s = limit_s
        self.began_s = time.monotonic()
        self.app: App | None = None
        self.error = ""
        self.loaded = threading.Event()

    def load(self, build: Callable[[str], App] | None = None) -> None:
        try:
            self.app = (build or build_app)(self.logdir)
        except BaseException:  # argparse ends with SystemExit; the page shows that too
            self.error = traceback.format_exc()
            sys.stderr.write(self.error)
        finally:
            self.loaded.set()

    def start_loading(self) -> threading.Thread:
        thread = threading.Thread(target=self.load, name="load-tensorboard", daemon=True)
        thread.start()
        return thread

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if environ.get("PATH_INFO", "") in ("", "/") and self.restart:
            folder = self.wanted()
            if folder != self.logdir:
                threading.Timer(0.2, self.restart).start()  # after this answer has gone out
                return self._waiting(start, folder)
        if self.app is not None:
            return self.app(environ, start)
        if not self.error and time.monotonic() - self.began_s > self.limit_s:
            stacks = "".join(_stack(thread) for thread in threading.enumerate())
            return _answer(start, "500 Internal Server Error", _failed(self._late(), stacks))
        if self.error:
            what = "TensorBoard could not be started"
            return _answer(start, "500 Internal Server Error", _failed(what, self.error))
        return self._waiting(start, self.logdir)

    def _waiting(self, start: StartResponse, folder: str) -> Iterable[bytes]:
        body = f"<p>Reading the runs in <code>{escape(folder)}</code>; this page follows.</p>"
        # A refresh by <meta> would do nothing where the address ends in "#scalars".
        refresh = "<script>setTimeout(() => location.reload(), 1000)</script>"
        page = _PAGE.format(refresh=refresh, title="TensorBoard is loading …", body=body)
        return _answer(start, "503 Service Unavailable", page)

    def _late(self) -> str:
        return f"TensorBoard has not loaded within {self.limit_s:.0f} s"


def build_app(logdir: str) -> App:
    """TensorBoard without its own server: that one opens a TCP port any user can read."""
    from tensorboard import default, program

    from course_lib.lab.tensorboard.plugin import OfflineProfilerPlugin

    mended = OfflineProfilerPlugin.__mro__[1]
    plugins = [plugin for plugin in default.get_plugins() if plugin is not mended]
    captured: list[App] = []

    class Capture(program.TensorBoardServer):  # type: ignore[misc]
        def __init__(self, wsgi_app: App, flags: Any) -> None:
            captured.append(wsgi_app)

        def serve_forever(self) -> None:
            """The board serves."""

        def get_url(self) -> str:
            return ""

    board = program.TensorBoard(plugins=[*plugins, OfflineProfilerPlugin], server_class=Capture)
    flags = ["--logdir", logdir, "--load_fast=false", "--reload_interval=5"]
    board.configure(["tensorboard", *flags, "--window_title=Runs of the course"])
    board.launch()
    return captured[0]


def open_server(socket_path: str, app: App) -> BaseWSGIServer:
    """Listens in a folder that only this user may enter; others' folders are refused."""
    folder = Path(socket_path).absolute().parent
    facts = folder.stat()
    if facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise PermissionError(
            f"{folder} can be entered by other users of this machine (mode "
            f"{facts.st_mode & 0o777:o}); TensorBoard would show them your runs. "
            f"Use a folder of your own with mode 700."
        )
    os.umask(0o077)
    Path(socket_path).unlink(missing_ok=True)  # ours, from before a restart
    return make_server(f"unix://{socket_path}", 0, app, threaded=True, request_handler=_Quiet)


class _Quiet(WSGIRequestHandler):
    """Only errors: the page asks every few seconds, and the Jupyter server's log is read too."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        if str(code).startswith("5") and str(code) != "503":
            super().log_request(code, size)


def _stack(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    lines = traceback.format_stack(frame) if frame else []
    return f"{thread.name}:\n{''.join(lines[-6:])}\n"


def _failed(title: str, details: str) -> str:
    advice = (
        "<p>What to try: <code>course doctor</code> in a terminal says whether the packages are "
        "complete; <code>make setup</code> repairs them. Then stop this page's process by "
        "restarting the Jupyter server.</p>"
    )
    body = f"{advice}<pre>{escape(details)}</pre>"
    return _PAGE.format(refresh="", title=escape(title), body=body)


def _answer(start: StartResponse, status: str, page: str) -> Iterable[bytes]:
    content = page.encode()
    start(status, [("Content-Type", "text/html; charset=utf-8"), ("Cache-Control", "no-store")])
    return [content]
