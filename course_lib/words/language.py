"""Language of the course's messages in this process.

A notebook's cells are the same in every language, so they cannot set it. The language comes from
`COURSE_LANGUAGE`, else from the folder of the notebook, in which its kernel starts
(`my_notebooks/ko`). Outside notebooks, the terminal's settings count last.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from course_lib.shipped import SHIPPED

ENGLISH = "en"
SWITCH = "COURSE_LANGUAGE"
KERNEL = "ipykernel.kernelapp"
NOTEBOOK_FOLDERS = ("notebooks", "solutions", "my_notebooks")
TERMINAL_SETTINGS = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
LOCALE = SHIPPED / "locale"
# Languages with at least a partial translation.
LANGUAGES = tuple(sorted(path.parent.name for path in LOCALE.glob("*/language.toml")))


def language() -> str:
    """Return the current language: one of LANGUAGES, or English."""
    if chosen := os.environ.get(SWITCH):
        return _known(chosen)
    if found := _language_of_working_folder():
        return found
    if KERNEL in sys.modules:
        return ENGLISH
    settings = (os.environ.get(name) for name in TERMINAL_SETTINGS)
    return next((_known(setting) for setting in settings if setting), ENGLISH)


@contextmanager
def speaking(code: str) -> Iterator[None]:
    """Switch the language temporarily, for example to make a book or slides."""
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = code
    try:
        yield
    finally:
        if before is None:
            del os.environ[SWITCH]
        else:
            os.environ[SWITCH] = before


def language_of(folder: Path) -> str:
    """Return the language of the notebooks in a folder; empty if they are not a translation."""
    for place in (folder, *folder.parents):
        if place.name in LANGUAGES and place.parent.name in NOTEBOOK_FOLDERS:
            return place.name
    return ""


def _language_of_working_folder() -> str:
    try:
        return language_of(Path.cwd())
    except OSError:  # the folder was deleted
        return ""


def _known(setting: str) -> str:
    """Return the language of a setting: `ko` for `ko_KR.UTF-8` and for `ko:en`."""
    code = setting.partition(":")[0].partition(".")[0].partition("_")[0].lower()
    return code if code in LANGUAGES else ENGLISH
