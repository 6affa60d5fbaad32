"""A Jupyter server with recorded runs, and a browser that cannot reach anything else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from board import PATIENCE_S, Server, jupyter  # noqa: E402


@pytest.fixture(scope="session")
def recorded(tmp_path_factory) -> Path:
    """Runs with traces: recorded here with today's torch, and one of a device with kernels."""
    import gpu_trace

    folder = tmp_path_factory.mktemp("recorded")
    command = [sys.executable, str(HERE / "record_traces.py"), str(folder)]
    ranks = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for rank in (0, 1)
    ]
    for rank in ranks:
        _, errors = rank.communicate(timeout=240)
        assert rank.returncode == 0, errors.decode()[-2000:]
    for rank in (0, 1):
        gpu_trace.write(folder / "gpu-4" / "profile" / f"rank{rank}.1.pt.trace.json.gz", rank, 2)
    return folder


@pytest.fixture(scope="session")
def server(recorded, tmp_path_factory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("workspace")
    (folder / "runs").symlink_to(recorded)
    with jupyter(folder) as running:
        yield running


@dataclass
class Visit:
    page: object
    outside: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@pytest.fixture
def visit(browser, server) -> Iterator[Visit]:
    """A page 1280 pixels wide. A request to a different server is stopped and fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(1000 * PATIENCE_S)
    page = context.new_page()
    seen = Visit(page)
    own = server.url.split("/user/")[0]

    def guard(route):
        if route.request.url.startswith((own, "data:", "blob:")):
            route.continue_()
        else:
            seen.outside.append(route.request.url)
            route.abort()

    context.route("**/*", guard)
    context.on("weberror", lambda error: seen.errors.append(str(error.error)))
    page.goto(f"{server.url}api/status?token=secret")
    yield seen
    context.close()
    assert seen.outside == []
    assert seen.errors == []
