"""Class overview in an instructor's browser: `python -m course_lib.classroom.page`.

The instructor's own Jupyter server starts the page under the instructor's account. File
permissions therefore decide who sees the class. A learner's page says that only instructors can
see it. All text in the page is escaped, and the page may load and run nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from html import escape
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from string import Template
from typing import Any

from course_lib.classroom import folder, tables
from course_lib.classroom.roster import read
from course_lib.lab.errors import LabError
from course_lib.lab.jupyter.parent import exit_with
from course_lib.words import _

WEB = Path(__file__).with_name("web")
HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'self'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def html(place: Path) -> str:
    """Return the page, which reloads every three seconds."""
    try:
        roster, now = read(place), time.time()
    except LabError as error:
        body = [_text("p", str(error))]
    else:
        body = [
            _text("p", tables.summary(roster, now)),
            _table(tables.LEARNER_COLUMNS, tables.learner_rows(roster, now)),
            _table(tables.EXERCISE_COLUMNS, tables.exercise_rows(roster, now)),
            *(_text("p", line) for line in tables.words_below(roster, place)),
        ]
    page = Template((WEB / "class.html").read_text(encoding="utf-8"))
    return page.substitute(time=time.strftime("%H:%M:%S"), body="\n".join(body))


def _text(tag: str, text: object) -> str:
    return f"<{tag}>{escape(str(text))}</{tag}>"


def _table(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    lines = [f"<tr>{''.join(_text('th', name) for name in columns)}</tr>"]
    for row in rows:
        kind = ' class="stuck"' if row["is_stuck"] else ""
        lines.append(f"<tr{kind}>{''.join(_text('td', row[name]) for name in columns)}</tr>")
    return f"<table>{''.join(lines)}</table>" if rows else ""


class Handler(BaseHTTPRequestHandler):
    server: ClassServer

    def do_GET(self) -> None:
        is_there = self.path.partition("?")[0] == "/"
        content = (html(self.server.place) if is_there else "no such page\n").encode()
        self.send_response(200 if is_there else 404)
        for name, value in {**HEADERS, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *values: Any) -> None:
        """Log nothing. A line every three seconds would fill the Jupyter server's log."""


class ClassServer(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True

    def __init__(self, socket: str, place: Path) -> None:
        super().__init__(socket, Handler)
        self.place = place


def proxy_entry() -> dict[str, Any]:
    """Return the entry for jupyter-server-proxy, with a launcher tile for instructors."""
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
            "category": "Notebook",  # JupyterLab draws icons only in this category
        },
    }


def may_look() -> bool:
    try:
        place = folder.place()
    except LabError:
        return False
    return place is not None and os.access(place, os.R_OK)


def _command(unix_socket: str) -> list[str]:
    values = ["--socket", unix_socket, "--parent", str(os.getpid())]
    return [sys.executable, "-m", __name__, *values]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m course_lib.classroom.page")
    parser.add_argument("--socket", required=True, help=_("path of the Unix socket to listen on"))
    parser.add_argument("--parent", type=int, default=os.getppid(), help=_("exit when it exits"))
    options = parser.parse_args(arguments)
    exit_with(options.parent)
    place = folder.place() or Path(f"(no folder: {folder.SETTING} is not set)")
    ClassServer(options.socket, place).serve_forever()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
