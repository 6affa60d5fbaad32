"""Jobs on the part's own box, as in a lesson: from recipe to reader."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from course_lib import Lab

LARGEST_BYTES = 16 << 20
SHOWN = ("memory", "profile", "snapshots", "out.log", "links.json", "recipe.toml", "monitor")


def lab(folder: Path) -> Any:
    return Lab(folder / "workspace", site="box", quiet=True)


def keep(run: Any, folder: Path) -> list[str]:
    """Copy files for lessons; return the names of files that are too large."""
    left_out = []
    for name in SHOWN:
        source = run.folder / name
        for file in sorted(source.rglob("*")) if source.is_dir() else [source]:
            if not file.is_file():
                continue
            target = folder / "recordings" / run.recipe.name / file.relative_to(run.folder)
            if file.stat().st_size > LARGEST_BYTES:
                left_out.append(f"{target.name} ({file.stat().st_size >> 20} MiB)")
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    return left_out
