"""`make lab` serves JupyterLab on lesson 00, without a display and as root, to its user alone."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import websocket

sys.path.insert(0, str(Path(__file__).parents[1] / "deploy"))
sys.path.insert(0, str(Path(__file__).parents[1] / "lab" / "tensorboard"))
from board import wait_until
from listening import ports, reached_by, sockets

ADDRESS = re.compile(r"^\s+(http://127\.0\.0\.1:\d+)(/lab\S*)\?token=(\w+)")
PATIENCE_S = 120
NOBODY = 65534
SOCKETS = 6
"""Of a kernel: its five channels, and what its forks print."""


@dataclass(frozen=True)
class Served:
    process: subprocess.Popen
    address: str
    page: str
    token: str

    def ask(self, path: str, method: str = "GET") -> bytes:
        """Ask until the server answers. It prints the address a moment before it listens there."""
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


@pytest.fixture(scope="module")
def served(repository, tmp_path_factory):
    """A server started as from a script: without a terminal, in a home whose files add to PATH."""
    folder = tmp_path_factory.mktemp("served")
    home = folder / ("a-home-with-a-long-name-" * 6)
    home.mkdir()
    (home / ".bashrc").write_text("PATH=$HOME/bin:$PATH\n")
    (home / ".profile").write_text(". ~/.bashrc\n")
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
                yield Served(server, *found.groups())
                break
        else:
            pytest.fail("JupyterLab printed no address:\n" + "".join(printed[-20:]))
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.stderr.close()
        server.wait(timeout=30)


def test_the_printed_address_opens_jupyterlab_on_lesson_00(served):
    """It opens the learner's copy of the lesson, which git ignores."""
    assert served.page == "/lab/tree/my_notebooks/00_the_lab.ipynb"
    assert json.loads(served.ask("/api/contents/my_notebooks/00_the_lab.ipynb"))["writable"]
    assert "JupyterLab" in served.ask(served.page).decode()


@pytest.mark.parametrize(
    ("plugin", "name", "wanted"),
    [
        (
            "@jupyterlab/docmanager-extension:plugin",
            "defaultViewers",
            {"markdown": "Markdown Preview"},
        ),
        ("@jupyterlab/apputils-extension:notification", "fetchNews", "false"),
        ("@jupyter-widgets/jupyterlab-manager:plugin", "saveState", True),
    ],
)
def test_jupyterlab_opens_texts_as_texts_and_fetches_no_news(served, plugin, name, wanted):
    """These values are defaults, which a learner can override."""
    settings = json.loads(served.ask(f"/lab/api/settings/{plugin}"))
    assert settings["schema"]["properties"][name]["default"] == wanted


@pytest.mark.parametrize(
    ("lesson", "holds"), [("14_estimating", "<svg"), ("03_data_parallelism", "data:image/png")]
)
def test_a_page_exported_by_the_menu_loads_nothing_and_is_whole(served, lesson, holds):
    page = served.ask(f"/nbconvert/html/my_notebooks/{lesson}.ipynb").decode()
    loaded = re.findall(r"<(?:script|img|link|iframe)[^>]*(?:src|href)=[\"'](?!data:)[^\"']*", page)
    assert loaded == []
    assert holds in page


def test_no_other_account_can_listen_to_a_kernel(served, lacking):
    served.ask("/api/kernels", "POST")
    server = psutil.Process(served.process.pid)
    kernel = wait_until(lambda: _kernel_below(server), PATIENCE_S)
    bound = wait_until(
        lambda: found if len(found := sockets(kernel)) >= SOCKETS else (), PATIENCE_S
    )
    assert ports(kernel) == []
    for folder in {path.parent for path in bound}:
        facts = folder.stat()
        assert (facts.st_uid, facts.st_mode & 0o777) == (os.getuid(), 0o700)
    if os.getuid() != 0:
        lacking("only root can try it as another account")
    assert reached_by(0, bound), "the owner reaches them: the attempt itself works"
    assert reached_by(NOBODY, bound) == []


def _kernel_below(server: psutil.Process) -> psutil.Process | None:
    for process in server.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any("kernel" in word for word in process.cmdline()):
                return process
    return None


def test_a_terminal_finds_the_commands_though_the_server_has_no_terminal_itself(served):
    name = json.loads(served.ask("/api/terminals", "POST"))["name"]
    address = f"{served.address.replace('http', 'ws')}/terminals/websocket/{name}"
    channel = websocket.create_connection(f"{address}?token={served.token}", timeout=PATIENCE_S)
    channel.send(json.dumps(["stdin", 'command -v course squeue; echo e"n"d\r']))
    shown = ""
    while not re.search(r"(^|\s)end\s", shown):
        kind, text = json.loads(channel.recv())
        shown += text if kind == "stdout" else ""
    channel.close()
    assert re.search(r"(^|\s)\S+/bin/course\s", shown), shown
    assert re.search(r"(^|\s)\S+/box/bin/squeue\s", shown), shown
