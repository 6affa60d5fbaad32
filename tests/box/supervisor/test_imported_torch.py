"""What a process with torch needs of its device's limit before its first tensor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib.box.supervisor import imported_torch

RESERVED_BYTES = 300 * 2**20
ASK = "from course_lib.box.supervisor import imported_torch as it; print(it.data_bytes())"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A torch that reserves memory when it is imported, as a build for GPUs does."""
    folder = tmp_path / "packages" / "torch"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "version.py").write_text("__version__ = '9.0+cu999'\ncuda = '99.9'\nhip = None\n")
    (folder / "distributed.py").write_text(f"held = bytearray({RESERVED_BYTES})\n")
    return folder


def asked(package: Path, home: Path) -> int:
    where = {"PYTHONPATH": str(package.parent), "COURSE_BOX_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        env={**os.environ, **where},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells it, on Linux alone")
def test_a_build_for_gpus_is_measured_once(package: Path, tmp_path: Path) -> None:
    found = asked(package, tmp_path / "home")
    assert RESERVED_BYTES < found < RESERVED_BYTES + imported_torch.OF_PROCESSORS_BYTES
    (package / "distributed.py").write_text("")
    assert asked(package, tmp_path / "home") == found
    version = package / "version.py"
    version.write_text(version.read_text().replace("9.0", "9.1"))
    assert asked(package, tmp_path / "home") < RESERVED_BYTES


def test_a_build_for_processors_is_not(package: Path, tmp_path: Path) -> None:
    (package / "version.py").write_text("__version__ = '9.0'\ncuda = None\n")
    assert asked(package, tmp_path / "home") == imported_torch.OF_PROCESSORS_BYTES


@pytest.mark.parametrize("broken", ["raise SystemError", "import sys; sys.exit(3)"])
def test_a_torch_that_cannot_be_imported_costs_no_job(
    package: Path, tmp_path: Path, broken: str
) -> None:
    whole = (package / "distributed.py").read_text()
    (package / "distributed.py").write_text(broken)
    assert asked(package, tmp_path / "home") == imported_torch.OF_GPUS_BYTES
    (package / "distributed.py").write_text(whole)
    again = asked(package, tmp_path / "home")
    assert RESERVED_BYTES < again < imported_torch.OF_GPUS_BYTES, "a guess was kept"


def test_a_folder_that_cannot_be_written_costs_no_job(package: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert asked(package, tmp_path / "file" / "home") > RESERVED_BYTES
