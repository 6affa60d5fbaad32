"""Removal of folders, accounts and secrets of the machine from recorded texts."""

from __future__ import annotations

import json
import os
import pwd
import re
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from course_lib.lab.job.recipe import Recipe
from course_lib.lab.workspace import PACKAGE, account

AS_TOLD = "~/course"
# Names of variables whose values are secret.
SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|PRIVATE", re.IGNORECASE)
QUOTED_FOLDER = re.compile(rf"""(["'])({AS_TOLD}[^\s"']*)\1""")
# The line with which a script finds the interpreter that wrote it.
OWN_PYTHON = re.compile(r'^export PATH=.*:"\$PATH"$', re.MULTILINE)
# Fields of a site that name a project or a class.
PRIVATE = ("account", "reservation")
HIDDEN = "hidden"
USUAL_HOSTS = ("localhost", "node1", "node2")
# A shorter account name would match words in many texts.
SHORTEST_NAME = 4
# Variables that move a folder, and the folder's usual location.
MOVED = {
    "COURSE_BOX_HOME": "~/.local/state/course-box",
    "XDG_STATE_HOME": "~/.local/state",
    "TMPDIR": "/tmp",
}
# Folders of a site.
PLACES = {"workspace": AS_TOLD, "programs": f"{AS_TOLD}/code", "data": f"{AS_TOLD}/data"}
OF_ANYBODY = ("/", "/usr", "/usr/local", "/tmp")
# The end of a name: `ws.old` is not the folder `ws`, but a sentence may end after `ws.`
ENDS = r"(?![\w-]|\.\w)"
# A name begins alone, or after an escape of JSON (`\\n`) or a colour (`[0;32m`).
BEGINS = r"(?:(?<![\w.-])|(?<=\\[nrt])|(?<=[\d\[]m))"


def folders(workspace: Path) -> dict[str, str]:
    """Return the replacement for each private folder of this machine."""
    here = {workspace: AS_TOLD, PACKAGE.parent: AS_TOLD, Path.home(): "~"}
    with suppress(KeyError):  # an account without a name, as in some containers
        here[Path(pwd.getpwuid(os.getuid()).pw_dir)] = "~"
    if sys.prefix != sys.base_prefix:
        here[Path(sys.prefix)] = f"{AS_TOLD}/.venv"
    for name, words in MOVED.items():
        if chosen := os.environ.get(name):
            here[Path(chosen)] = words
    return _names(here)


def folders_of_run(site: Mapping[str, Any]) -> dict[str, str]:
    """Return replacements for a run's folders. Its workspace may have been moved since then."""
    here = {Path(str(site[name])): words for name, words in PLACES.items() if site.get(name)}
    if site.get("path"):
        here[Path(str(site["path"])).parent] = f"{AS_TOLD}/.venv"
    return _names(here)


def _names(here: Mapping[Path, str]) -> dict[str, str]:
    """Return each path as given and with its links resolved."""
    ways = {way: words for path, words in here.items() for way in (path.absolute(), path.resolve())}
    return {str(path): words for path, words in ways.items() if str(path) not in OF_ANYBODY}


def private_words(recipe: Recipe, site: Mapping[str, Any]) -> dict[str, str]:
    """Return replacements for a run's private words: people, accounts, possible secrets."""
    words = {str(site.get(name, "")): HIDDEN for name in PRIVATE}
    tables = (recipe.environment, site.get("environment", {}))
    words |= {
        str(value): HIDDEN
        for table in tables
        for name, value in table.items()
        if SECRET.search(str(name))
    }
    return {a: b for a, b in (words | people()).items() if len(a) >= SHORTEST_NAME}


def people() -> dict[str, str]:
    """Return replacements for account and host names, including names that Slurm's tables cut."""
    words: dict[str, str] = {}
    named = (account(), os.environ.get("LOGNAME", ""), os.environ.get("USER", ""))
    for who in {*named} - {"root", ""}:
        words |= {who: "learner", who[:8]: "learner"}
    if (host := socket.gethostname()) not in USUAL_HOSTS:
        words |= {host: "login", host.partition(".")[0]: "login"}
    return {a: b for a, b in words.items() if len(a) >= SHORTEST_NAME}


def without(text: str, names: Mapping[str, str]) -> str:
    """Replace names, the longest first, because one folder may lie in another."""
    for path in sorted(names, key=len, reverse=True):
        for written in {path, json.dumps(path)[1:-1], quote(path)}:
            if written in text:
                name = re.compile(BEGINS + re.escape(written) + ENDS, re.ASCII)
                text = name.sub(names[path], text)
    return text


def in_bytes(content: bytes, names: Mapping[str, str]) -> bytes:
    """Replace names in bytes. Bytes that are not text are unchanged."""
    text = content.decode("utf-8", "surrogateescape")
    return without(text, names).encode("utf-8", "surrogateescape")


def in_table(value: Any, names: Mapping[str, str]) -> Any:
    """Replace names in all texts within a JSON value, but not in the keys of its tables."""
    if isinstance(value, str):
        return without(value, names)
    if isinstance(value, list | tuple):
        return [in_table(item, names) for item in value]
    if isinstance(value, dict):
        return {name: in_table(item, names) for name, item in value.items()}
    return value


def as_on_any_machine(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Remove further traces of a machine from a batch script after the folders are replaced: the
    location of Python, and quotes that only some folders need."""
    scripts = {
        name: OWN_PYTHON.sub("", QUOTED_FOLDER.sub(r"\2", text))
        for name, text in recipe.items()
        if isinstance(text, str)
    }
    return {**recipe, **scripts}


def hide(notebook: Any, names: Mapping[str, str]) -> None:
    """Replace names in all outputs of a notebook. Pixel images are unchanged: they are encoded as
    letters too, but contain no folder names."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            pixels = {
                kind: data
                for kind, data in output.get("data", {}).items()
                if kind.startswith("image/") and kind != "image/svg+xml"
            }
            output.update(in_table(output, names))
            output.get("data", {}).update(pixels)
    notebook.metadata.update(in_table(notebook.metadata, names))
