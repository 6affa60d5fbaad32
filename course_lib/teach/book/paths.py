"""What outputs say of the machine where they were made: its folders, nobody's business."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from course_lib.lab.plain_files import home
from course_lib.lab.workspace import PACKAGE

AS_TOLD = "~/course"


def folders(workspace: Path) -> dict[str, str]:
    """What to write in place of which folder."""
    told = {str(workspace.resolve()): AS_TOLD, str(PACKAGE.parent): AS_TOLD, home(): "~"}
    return {path: words for path, words in told.items() if len(path) > len("/a")}


def without(text: str, told: Mapping[str, str]) -> str:
    """The longest names first, since one folder may lie in another."""
    for path in sorted(told, key=len, reverse=True):
        text = re.sub(rf"{re.escape(path)}(?![\w.-])", told[path].replace("\\", r"\\"), text)
    return text


def hide(outputs: list[Any], told: Mapping[str, str]) -> None:
    """Pictures are left alone: they are written in letters too, and say nothing of folders."""
    for output in outputs:
        if isinstance(output.get("text"), str):
            output["text"] = without(output["text"], told)
        for kind, value in output.get("data", {}).items():
            if kind.startswith("text/") and isinstance(value, str):
                output["data"][kind] = without(value, told)
        if isinstance(output.get("traceback"), list):
            output["traceback"] = [without(line, told) for line in output["traceback"]]
