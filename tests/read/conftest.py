"""Real logs of other people's runs, if they lie beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def logs(shared: Path) -> Path:
    folder = shared / "logs"
    if not folder.is_dir():
        pytest.skip("no folder of real logs beside the checkout")
    return folder


@pytest.fixture
def write(tmp_path: Path):
    """`write("a.log", text)` gives the path of a new file."""

    def make(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return make
