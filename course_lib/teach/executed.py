"""Where notebooks are kept as they ran, with their pictures."""

from __future__ import annotations

from pathlib import Path

from course_lib.teach.lessons import CLONE, link_images
from course_lib.words import ENGLISH
from course_lib.words.choice import language_of


def executed_in(workspace: Path, language: str = ENGLISH) -> Path:
    """Where the notebooks of that language are kept."""
    return workspace / ".course" / "executed" / ("" if language == ENGLISH else language)


def place_of(path: Path, workspace: Path) -> Path:
    return executed_in(workspace, language_of(path.resolve().parent) or ENGLISH) / path.name


def keep(notebook: object, path: Path, workspace: Path) -> None:
    import nbformat

    file = place_of(path, workspace)
    file.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, file)
    link_images(executed_in(workspace).parent, CLONE / "images")
    if (own := path.resolve().parent / "images").is_dir():
        link_images(file.parent, own)
