"""Separate box for each part, so that even a killed part leaves no process behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VARIABLE = "COURSE_BOX_HOME"
ROOT = Path(__file__).resolve().parents[2]


def make() -> str:
    """Create the box's folder; its slots share the available GPUs, even a single one."""
    home = tempfile.mkdtemp(prefix="accept-")
    (Path(home) / "box.toml").write_text('gpus = "share"\n', encoding="utf-8")
    return home


def end_all(home: str) -> None:
    """Cancel the remaining jobs of the box; then delete it."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = [str(ROOT / "course_lib/box/bin/scancel"), "--me"]
    around = {**os.environ, VARIABLE: home, "PATH": path}
    subprocess.run(command, env=around, capture_output=True, timeout=30, check=False)
    shutil.rmtree(home, ignore_errors=True)
