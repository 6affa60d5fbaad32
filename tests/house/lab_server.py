"""Starting `make lab` as a script would: no terminal anywhere, and a home of its own."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ADDRESS = re.compile(r"^\s+(http://127\.0\.0\.1:\d+)(/lab\S*)\?token=(\w+)")
PATIENCE_S = 120


@dataclass(frozen=True)
class Served:
    process: subprocess.Popen
    address: str
    page: str
    token: str

    def ask(self, path: str, method: str = "GET") -> bytes:
        """The address is printed a moment before the server listens there."""
        request = urllib.request.Request(
            self.address + path, method=method, headers={"Authorization": f"token {self.token}"}
        )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                    return answer.read()
            except urllib.error.HTTPError:
                raise
            except urllib.error.URLError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


@contextlib.contextmanager
def make_lab(repository: Path, home: Path) -> Iterator[Served]:
    environment = {**os.environ, "BROWSER": "none", "HOME": str(home), "SHELL": "/bin/bash"}
    for name in ("JUPYTER_TOKEN", "JUPYTER_RUNTIME_DIR", "XDG_DATA_HOME", "PROMPT_COMMAND"):
        environment.pop(name, None)
    server = subprocess.Popen(
        ["bash", "deploy/lab.sh"],
        cwd=repository,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    printed = []
    try:
        for line in server.stderr:
            printed.append(line)
            if found := ADDRESS.search(line):
                threading.Thread(target=server.stderr.read, daemon=True).start()
                yield Served(server, *found.groups())
                break
        else:
            pytest.fail("JupyterLab printed no address:\n" + "".join(printed[-20:]))
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=30)
