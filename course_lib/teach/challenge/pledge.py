"""What a learner foresees of a run, written into its recipe before it is submitted; and which
workspace it was."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from course_lib.lab.plain_files import plain
from course_lib.lab.workspace import Workspace, writing

VARIABLE = "COURSE_CHALLENGE"
WRITTEN = re.compile(r"(\d{1,9}\.\d) s, foreseen in ([0-9a-f]{16})")
IDENTITY = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class Pledge:
    seconds: float
    workspace: str


def made(workspace: Workspace, seconds: float) -> dict[str, str]:
    """The environment of a recipe. It is part of what is submitted, so that another prediction
    makes another run."""
    written = f"{seconds:.1f} s, foreseen in {identity(workspace)}"
    return {VARIABLE: written}


def of_recipe(environment: Mapping[str, Any]) -> Pledge | None:
    found = WRITTEN.fullmatch(str(environment.get(VARIABLE, "")))
    return Pledge(float(found[1]), found[2]) if found else None


def identity(workspace: Workspace) -> str:
    """Drawn once for a workspace: says nothing of its owner, and differs from all others."""
    path = workspace.state / "challenge" / "workspace"
    for _ in range(2):
        try:
            found = plain(path).read_text(encoding="ascii", errors="replace").strip()
        except OSError:
            found = ""
        if IDENTITY.fullmatch(found):
            return found
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            new = path.with_name(f"workspace.{os.getpid()}")
            new.write_text(secrets.token_hex(8) + "\n", encoding="ascii")
            _first(new, path)
    return plain(path).read_text(encoding="ascii", errors="replace").strip()


def _first(new: Any, path: Any) -> None:
    """Of two notebooks that begin at once, the one that comes first decides for both."""
    try:
        os.link(new, path)
    except FileExistsError:
        pass
    finally:
        new.unlink()
