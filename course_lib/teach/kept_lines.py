"""Files of one JSON object per line in the workspace: what was solved, what was claimed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from course_lib.lab.plain_files import plain


def append(path: Path, entry: Mapping[str, Any], what: str) -> None:
    """Adds one line, whole also where others write at once. Where that cannot be done, it is said
    of `what` ("progress"), and the lesson goes on."""
    line = json.dumps(entry, ensure_ascii=False) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line.encode("utf-8", "replace"))
        finally:
            os.close(descriptor)
    except OSError as error:
        print(f"({what} could not be kept: {error})")


def entries(path: Path) -> list[dict[str, Any]]:
    """None where there is no file; broken lines are passed over."""
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
