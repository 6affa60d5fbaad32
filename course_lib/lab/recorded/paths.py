"""What texts say of the machine where they were made: its folders, accounts and secrets."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from course_lib.lab.job.recipe import Recipe
from course_lib.lab.plain_files import account, home
from course_lib.lab.workspace import PACKAGE

AS_TOLD = "~/course"
SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|PRIVATE", re.IGNORECASE)
"""Names of variables whose values are nobody's business."""
QUOTED_FOLDER = re.compile(rf"""(["'])({AS_TOLD}[^\s"']*)\1""")
OWN_PYTHON = re.compile(r'^export PATH=.*:"\$PATH"$', re.MULTILINE)
"""The line by which a script finds the interpreter that wrote it."""
PRIVATE = ("account", "reservation")
"""Fields of a site that name a project or a class."""
HIDDEN = "hidden"
USUAL_HOSTS = ("localhost", "node1", "node2")
SHORTEST_NAME = 4
"""A shorter name of an account is a word of many texts."""


def folders(workspace: Path) -> dict[str, str]:
    """What to write in place of which folder."""
    told = {str(workspace.resolve()): AS_TOLD, str(PACKAGE.parent): AS_TOLD, home(): "~"}
    return {path: words for path, words in told.items() if len(path) > len("/a")}


def private_words(recipe: Recipe, site: Mapping[str, Any]) -> dict[str, str]:
    """Of one run: who asked for it, for whose account, and values that look like secrets."""
    words = {str(site.get(name, "")): HIDDEN for name in PRIVATE}
    tables = (recipe.environment, site.get("environment", {}))
    words |= {
        str(value): HIDDEN
        for table in tables
        for name, value in table.items()
        if SECRET.search(str(name))
    }
    if (who := account()) != "root":
        words[who] = "learner"
    if (host := socket.gethostname().partition(".")[0]) not in USUAL_HOSTS:
        words[host] = "login"
    return {word: told for word, told in words.items() if len(word) >= SHORTEST_NAME}


def without(text: str, told: Mapping[str, str]) -> str:
    """The longest names first, since one folder may lie in another."""
    for path in sorted(told, key=len, reverse=True):
        ends = rf"(?<![\w.-]){re.escape(path)}(?![\w.-])"
        text = re.sub(ends, told[path].replace("\\", r"\\"), text)
    return text


def in_bytes(content: bytes, told: Mapping[str, str]) -> bytes:
    """What is no text stays as it is."""
    text = content.decode("utf-8", "surrogateescape")
    return without(text, told).encode("utf-8", "surrogateescape")


def in_table(value: Any, told: Mapping[str, str]) -> Any:
    return _in_texts(value, lambda text: without(text, told))


def _in_texts(value: Any, change: Callable[[str], str]) -> Any:
    """In all texts of a value as a file of JSON holds it, names of its tables apart."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_in_texts(item, change) for item in value]
    if isinstance(value, dict):
        return {name: _in_texts(item, change) for name, item in value.items()}
    return value


def as_on_any_machine(value: Any) -> Any:
    """What a batch script still says of the one where it was written, when the folders are told:
    where Python lies, and quotes that only some folders need."""
    return _in_texts(value, _script_as_on_any_machine)


def _script_as_on_any_machine(text: str) -> str:
    return OWN_PYTHON.sub("", QUOTED_FOLDER.sub(r"\2", text))


def hide(outputs: list[Any], told: Mapping[str, str]) -> None:
    """In outputs of cells. Pictures are left alone: they are written in letters too, and say
    nothing of folders."""
    for output in outputs:
        if isinstance(output.get("text"), str):
            output["text"] = without(output["text"], told)
        for kind, value in output.get("data", {}).items():
            if kind.startswith("text/") and isinstance(value, str):
                output["data"][kind] = without(value, told)
        if isinstance(output.get("traceback"), list):
            output["traceback"] = [without(line, told) for line in output["traceback"]]
