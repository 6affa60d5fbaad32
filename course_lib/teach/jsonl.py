"""JSON-lines files in the workspace: progress, guesses, claims, scores."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from course_lib.lab.workspace import plain
from course_lib.words import _


def append(path: Path, entry: Mapping[str, Any], what: str) -> None:
    """Append one line in one write, so that parallel writers do not mix their lines.

    If the line cannot be written, print a message that names it `what` ("progress"), and continue.
    """
    line = json.dumps(entry, ensure_ascii=False) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line.encode("utf-8", "replace"))
        finally:
            os.close(descriptor)
    except OSError as error:
        print(_("({what} could not be saved: {error})", what=what, error=error))


def entries(path: Path) -> list[dict[str, Any]]:
    """Read all objects. A missing file has none, and broken lines are skipped."""
    try:
        text = plain(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    found = []
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            found.append(entry)
    return found
