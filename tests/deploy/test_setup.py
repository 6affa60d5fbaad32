"""`make setup` lists downloads and missing programs, and does not wait for a server that never
answers.

A stand-in for Python says what pip says; the script and npm are the real ones.
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

STAND_IN = """#!/bin/sh
case "$*" in
*ensurepip*) exit {without_venv} ;;
*"version_info[:2]"*) echo 3.11 ;;
--version) echo Python 3.11.2 ;;
"-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
*"--requirement requirements.lock"*)
    echo "Collecting torch==2.13.0"
    echo "  Downloading torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl.metadata (29 kB)"
    echo "Downloading torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl (887.9 MB)"
    echo "Downloading https://somewhere.example/files/cuda_runtime-1-none-any.whl (1.2 GB)"
    echo "Downloading six-1.17.0-py2.py3-none-any.whl (11 kB)"
    while [ -e downloading ]; do sleep 0.1; done
    exit {pip_fails} ;;
*"--requirement deploy/book/requirements.lock"*) echo "$*" >>book.calls ;;
esac
"""
LONGER_THAN_ANY_ANSWER_S = 100
"""npm's own patience with a server that says nothing is three times 300 s."""


@pytest.fixture
def clone(tmp_path, repository):
    folder = tmp_path / "a clone"
    folder.mkdir()
    for name in ("deploy", "requirements.lock", "pyproject.toml"):
        subprocess.run(["cp", "-R", repository / name, folder / name], check=True)
    return folder


def stand_in(clone: Path, without_venv: int = 0, pip_fails: int = 0) -> dict[str, str]:
    """Return an environment in which set-up finds the stand-in for Python."""
    python = clone / "python3"
    python.write_text(STAND_IN.format(without_venv=without_venv, pip_fails=pip_fails))
    python.chmod(0o755)
    return {**os.environ, "PYTHON": str(python)}


def set_up(
    clone: Path, without_venv: int = 0, pip_fails: int = 0,
    script: Sequence[str] = ("deploy/setup.sh",),
    **environment: str,
):  # fmt: skip
    return subprocess.run(
        ["bash", *script], cwd=clone, text=True, capture_output=True, check=False,
        env=stand_in(clone, without_venv, pip_fails) | environment,
        timeout=LONGER_THAN_ANY_ANSWER_S,
    )  # fmt: skip


@pytest.fixture
def no_npm(tmp_path):
    """Return a PATH without npm."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in (
        "bash",
        "sh",
        "cat",
        "cksum",
        "flock",
        "rm",
        "mkdir",
        "cp",
        "grep",
        "dirname",
        "sleep",
    ):
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    return {"PATH": str(folder)}


def test_large_downloads_are_named_with_their_sizes(clone, no_npm):
    done = set_up(clone, **no_npm)
    assert done.returncode == 0, done.stderr
    named = [line.split(": ", 1)[1].split() for line in done.stderr.splitlines() if ".whl" in line]
    assert named == [
        ["torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl", "(887.9", "MB)"],
        ["cuda_runtime-1-none-any.whl", "(1.2", "GB)"],
    ]
    assert "compiling them" in done.stderr
    assert (clone / ".venv" / ".complete").is_file()


@pytest.mark.timeout(LONGER_THAN_ANY_ANSWER_S)
def test_during_a_download_a_terminal_shows_its_name_and_the_seconds(clone, no_npm):
    (clone / "downloading").touch()
    ours, terminal = pty.openpty()
    with subprocess.Popen(
        ["bash", "deploy/setup.sh"], cwd=clone, stderr=terminal, env=stand_in(clone) | no_npm
    ) as process:
        os.close(terminal)
        shown = b""
        while not re.search(rb"torch-\S+ \(887.9 MB\)\r\n.*set-up: \d+ s\r", shown, re.DOTALL):
            shown += os.read(ours, 4096)
        (clone / "downloading").unlink()
        with contextlib.suppress(OSError):  # the terminal of a process that ended
            while more := os.read(ours, 4096):
                shown += more
    os.close(ours)
    assert process.returncode == 0
    assert re.search(rb"set-up: done after \d+ s\r\n$", shown), "nothing counts on after the end"


def test_a_failure_of_pip_is_a_failure_of_set_up(clone, no_npm):
    done = set_up(clone, pip_fails=1, **no_npm)
    assert done.returncode != 0
    assert not (clone / ".venv" / ".complete").exists()


def test_a_python_without_venv_is_named_in_one_sentence_with_the_cure(clone, no_npm):
    done = set_up(clone, without_venv=1, **no_npm)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "has no venv" in line
    assert line.endswith("sudo apt-get install python3.11-venv")
    assert not (clone / ".venv").exists()


def test_what_makes_the_book_is_installed_once_with_the_pins_of_the_course(clone, no_npm):
    for _ in range(2):
        lock = "deploy/book/requirements.lock"
        done = set_up(clone, script=["deploy/packages.sh", lock], **no_npm)
        assert done.returncode == 0, done.stderr
    [call] = (clone / "book.calls").read_text().splitlines()
    assert "--constraint requirements.lock" in call


@pytest.fixture
def silent_registry():
    """Server that accepts every connection and never answers."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


def test_an_npm_that_gets_no_answer_costs_seconds_and_the_trace_view_alone(
    clone, need, silent_registry, tmp_path
):
    need("npm")
    done = set_up(
        clone, npm_config_registry=silent_registry, npm_config_cache=str(tmp_path / "npm-cache"),
        npm_config_replace_registry_host="always",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "npm could not; TensorBoard works all the same" in done.stderr
    assert (clone / ".venv" / ".complete").is_file()
