"""In which language this process speaks.

A notebook's cells are the same in every language, so none of them can say it. What says it is, in
this order: `COURSE_LANGUAGE`; the folder in which the notebook lies and its kernel starts
(`my_notebooks/ko`); and outside of notebooks the terminal's own settings, as for other programs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ENGLISH = "en"
SWITCH = "COURSE_LANGUAGE"
KERNEL = "ipykernel.kernelapp"
OF_NOTEBOOKS = ("notebooks", "solutions", "my_notebooks")
OF_A_TERMINAL = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
_PACKAGE = Path(__file__).resolve().parents[1]


def folder() -> Path:
    """Of the translations: in a clone beside the library, installed inside it."""
    beside = _PACKAGE.parent / "locale"
    return beside if beside.is_dir() else _PACKAGE / "locale"


LANGUAGES = tuple(sorted(path.parent.name for path in folder().glob("*/language.toml")))
"""Those into which the course is translated, at least in part."""


def language() -> str:
    """The code of one of LANGUAGES, or English."""
    if chosen := os.environ.get(SWITCH):
        return _known(chosen)
    if found := _of_folder():
        return found
    if KERNEL in sys.modules:
        return ENGLISH
    return next((_known(said) for name in OF_A_TERMINAL if (said := os.environ.get(name))), ENGLISH)


@contextmanager
def speaking(code: str) -> Iterator[None]:
    """This process speaks that language meanwhile: what is made by `told` for somebody else."""
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = code
    try:
        yield
    finally:
        if before is None:
            del os.environ[SWITCH]
        else:
            os.environ[SWITCH] = before


def _of_folder() -> str:
    try:
        return language_of(Path.cwd())
    except OSError:  # it was deleted
        return ""


def language_of(folder: Path) -> str:
    """Of notebooks in that folder; empty where it is none of a translation."""
    for place in (folder, *folder.parents):
        if place.name in LANGUAGES and place.parent.name in OF_NOTEBOOKS:
            return place.name
    return ""


def _known(said: str) -> str:
    """`ko` for `ko_KR.UTF-8` and for `ko:en`."""
    code = said.partition(":")[0].partition(".")[0].partition("_")[0].lower()
    return code if code in LANGUAGES else ENGLISH
