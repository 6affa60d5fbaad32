"""The class in the browser of an instructor: `python -m course_lib.teach.classroom.page`.

The Jupyter server of whoever opens it starts it under that account and hands on the pages, so the
system decides who can look: a learner's own page says that only instructors can. All that learners
wrote travels as JSON and is set as text, and the page may load nothing and run nothing but its own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from threading import Lock
from typing import Any

from course_lib.lab import clusters, workspace
from course_lib.lab.errors import LabError
from course_lib.lab.tensorboard.mortal import exit_with
from course_lib.teach.classroom import folder, opening, tables
from course_lib.teach.classroom.class_queue import ClassQueue
from course_lib.teach.classroom.roster import Reader, Roster
from course_lib.words import told

WEB = Path(__file__).with_name("web")
FILES = {
    "/": ("class.html", "text/html"),
    "/class.js": ("class.js", "text/javascript"),
    "/class.css": ("class.css", "text/css"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
SHORTEST_REST_S = 1.0
"""Several windows of one instructor get the same answer."""


@dataclass
class View:
    """What the page draws, made at most once in SHORTEST_REST_S."""

    reader: Reader
    queue: ClassQueue
    made_s: float = 0.0
    said: bytes = b""
    lock: Lock = field(default_factory=Lock)

    def answer(self) -> bytes:
        with self.lock:
            if not self.made_s or time.monotonic() - self.made_s > SHORTEST_REST_S:
                self.said, self.made_s = json.dumps(self._look()).encode(), time.monotonic()
            return self.said

    def _look(self) -> dict[str, Any]:
        try:
            roster, now = self.reader.read(), time.time()
        except LabError as error:
            return {"problem": told(str(error))}
        return {
            "time": time.strftime("%H:%M:%S"),
            "summary": told(tables.summary(roster, now)),
            "learner_columns": tables.LEARNER_COLUMNS,
            "learners": tables.learner_rows(roster, now),
            "exercise_columns": tables.EXERCISE_COLUMNS,
            "exercises": tables.exercise_rows(roster, now),
            "below": self._below(roster),
        }

    def _below(self, roster: Roster) -> list[str]:
        closed = opening.current(self.reader.place).words
        lines = [self.queue.text(roster.uids), closed, *tables.words_below(roster)]
        return [told(line) for line in lines if line]


class Handler(BaseHTTPRequestHandler):
    server: ClassServer

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/table":
            self._send(200, "application/json", self.server.view.answer())
        elif path in FILES:
            name, kind = FILES[path]
            self._send(200, kind, (WEB / name).read_bytes())
        else:
            self._send(404, "text/plain", b"no such page\n")

    def _send(self, code: int, kind: str, content: bytes) -> None:
        self.send_response(code)
        headers = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(content))}
        for name, value in {**headers, **HEADERS}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def address_string(self) -> str:
        """The other end of a Unix socket has none."""
        return "proxy"

    def log_message(self, format: str, *values: Any) -> None:
        """Two lines a second would fill the log of the Jupyter server."""


class ClassServer(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True

    def __init__(self, socket: str, view: View) -> None:
        super().__init__(socket, Handler)
        self.view = view


def proxy_entry() -> dict[str, Any]:
    """What jupyter-server-proxy asks for; a tile in the launcher for those who may look."""
    return {
        "command": _command,
        "unix_socket": True,  # in a new folder of mode 0700
        "timeout": 60,
        "absolute_url": False,
        "new_browser_tab": True,
        "launcher_entry": {
            "enabled": may_look(),
            "title": "The class",
            "icon_path": str(WEB / "icon.svg"),
            "category": "Notebook",  # JupyterLab draws no icon in any other
        },
    }


def may_look() -> bool:
    try:
        place = folder.place()
    except LabError:
        return False
    return place is not None and os.access(place, os.R_OK)


def _command(unix_socket: str) -> list[str]:
    """Braces would be taken for fields of jupyter-server-proxy's templates."""
    values = ["--socket", unix_socket, "--parent", str(os.getpid())]
    return [sys.executable.replace("{", "{{").replace("}", "}}"), "-m", __name__, *values]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m course_lib.teach.classroom.page")
    parser.add_argument("--socket", required=True, help="path of the Unix socket to listen on")
    parser.add_argument("--parent", type=int, default=os.getppid(), help="its end is ours too")
    options = parser.parse_args(arguments)
    exit_with(options.parent)
    site = clusters.choose(workspace.find()).site
    clusters.put_commands_on_path(site)
    place = folder.place() or Path(f"(no folder: {folder.SETTING} is not set)")
    server = ClassServer(options.socket, View(Reader(place), ClassQueue(site)))
    server.serve_forever()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
