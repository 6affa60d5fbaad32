"""A browser without a window, spoken to through two pipes: no port is opened."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless", "--disable-gpu", "--no-first-run", "--disable-sync", "--remote-debugging-pipe",
    "--disable-background-networking", "--disable-component-update", "--disable-quic",
)  # fmt: skip
REDIRECTED = 'exec "${@:3}" 3<&"$1" 4>&"$2"'
"""For bash: the browser reads from 3 and writes to 4, whatever the numbers are here."""
LIMIT_S = 300


class BrowserError(RuntimeError):
    """It ended, refused, or took too long."""


def command() -> str:
    """Empty where there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), "")


class Tab:
    """One page of it."""

    def __init__(self, reads: int, writes: int):
        self._reads, self._writes = reads, writes
        self._rest, self._number = b"", 0
        self._session = ""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]

    def ask(self, method: str, **parameters: object) -> dict[str, Any]:
        self._number += 1
        asked: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            asked["sessionId"] = self._session
        data = json.dumps(asked).encode() + b"\0"
        while data:
            data = data[os.write(self._writes, data) :]
        limit = time.monotonic() + LIMIT_S
        while (answer := self._next(limit)).get("id") != self._number:
            pass
        if "error" in answer:
            raise BrowserError(str(answer["error"].get("message", answer["error"])))
        return dict(answer["result"])

    def _next(self, limit: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            left_s = limit - time.monotonic()
            if left_s <= 0 or not select.select([self._reads], [], [], left_s)[0]:
                raise BrowserError(f"the browser did not answer within {LIMIT_S} s")
            data = os.read(self._reads, 1 << 20)
            if not data:
                raise BrowserError("the browser ended")
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def value(self, script: str) -> Any:
        told = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        return told["result"].get("value")

    def wait_for(self, script: str, limit_s: float = LIMIT_S) -> None:
        limit = time.monotonic() + limit_s
        while not self.value(script):
            if time.monotonic() > limit:
                raise BrowserError(f"the page was not ready within {limit_s:g} s")
            time.sleep(0.1)


@contextmanager
def tab(program: str) -> Iterator[Tab]:
    to_browser, from_here = os.pipe()
    to_here, from_browser = os.pipe()
    with tempfile.TemporaryDirectory(prefix="course-browser-", ignore_cleanup_errors=True) as home:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        words = [program, *FLAGS, *sandbox, f"--user-data-dir={home}"]
        process = subprocess.Popen(
            ["bash", "-c", REDIRECTED, "bash", str(to_browser), str(from_browser), *words],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        try:
            yield Tab(to_here, from_here)
        finally:
            os.close(from_here)  # at which it ends by itself
            os.close(to_here)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
