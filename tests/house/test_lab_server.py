"""`make lab` serves JupyterLab on lesson 00, without a display and as root."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

import pytest

ADDRESS = re.compile(r"^\s+http://127\.0\.0\.1:\d+/lab\S*\?token=\w+")


@pytest.fixture
def address(repository, tmp_path):
    environment = {**os.environ, "BROWSER": "none", "JUPYTER_RUNTIME_DIR": str(tmp_path)}
    environment.pop("JUPYTER_TOKEN", None)
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
                yield found[0].strip()
                break
        else:
            pytest.fail("JupyterLab printed no address:\n" + "".join(printed[-20:]))
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.stderr.close()
        server.wait(timeout=30)


def opened(address, patience_s=60):
    """The address is printed a moment before the server listens there."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return urllib.request.urlopen(address, timeout=patience_s)
        except urllib.error.URLError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def test_the_printed_address_opens_jupyterlab_on_lesson_00(address):
    assert "/lab/tree/notebooks/00_the_lab.ipynb" in address
    with opened(address) as page:
        assert page.status == 200
        assert "JupyterLab" in page.read().decode()
