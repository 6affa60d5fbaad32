"""Starting a Jupyter server for the tests of its TensorBoard."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

# Much longer than a busy machine needs.
PATIENCE_S = 240.0


def wait_until(what, limit_s: float = PATIENCE_S):
    """Return the first true answer of `what`; fail at a generous time limit."""
    until_s = time.monotonic() + limit_s
    while time.monotonic() < until_s:
        if found := what():
            return found
        time.sleep(0.2)
    raise AssertionError(f"not within {limit_s} s: {what}")


@dataclass
class Server:
    process: subprocess.Popen
    url: str
    folder: Path
    log: Path

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    def started(self, word: str) -> list[psutil.Process]:
        """Return the processes under this server with this word in their command line."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        return [child for child in children if word in " ".join(_command(child))]


@contextlib.contextmanager
def jupyter(folder: Path, *more: str) -> Iterator[Server]:
    """Start a server under a base URL, as JupyterHub does, with separate runtime files and `more`
    options."""
    log = folder / "jupyter.log"
    environment = {
        **{
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("JPY_", "JUPYTERHUB_", "PYTEST_"))
        },
        "JUPYTER_TOKEN": "secret",
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "COURSE_WORKSPACE": str(folder),
    }
    options = [
        "--no-browser", "--allow-root", "--port=0", "--ServerApp.base_url=/user/x/",
        f"--ServerApp.root_dir={folder}", "--ip=127.0.0.1", "--LabApp.news_url=",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", *more,
    ]  # fmt: skip
    with log.open("w") as file:
        command = [sys.executable, "-m", "jupyterlab", *options]
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        url = wait_until(lambda: _address(folder / "runtime", process))
        yield Server(process, url, folder, log)
    finally:
        everyone = psutil.Process(process.pid).children(recursive=True) if _alive(process) else []
        process.send_signal(signal.SIGTERM)
        _, left = psutil.wait_procs([*everyone, process], timeout=20)
        for one in left:
            one.kill()


def _command(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):  # ended meanwhile: a helper of the server's start
        return process.cmdline()
    return []


def _alive(process: subprocess.Popen) -> bool:
    return process.poll() is None


def _address(runtime: Path, process: subprocess.Popen) -> str:
    assert _alive(process), "the Jupyter server ended"
    for file in runtime.glob("jpserver-*.json"):
        with contextlib.suppress(ValueError):
            return json.loads(file.read_text())["url"]
    return ""
