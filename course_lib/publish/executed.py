"""Storage of executed notebooks and their pictures.

Folders, accounts and hosts are removed, because pages may be made on a different machine.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from course_lib.lab.recorded import anonymous
from course_lib.shipped import SHIPPED
from course_lib.words import ENGLISH
from course_lib.words.language import language_of


def executed_in(workspace: Path, language: str = ENGLISH) -> Path:
    """Return the folder for executed notebooks of a language."""
    return workspace / ".course" / "executed" / ("" if language == ENGLISH else language)


def place_of(path: Path, workspace: Path) -> Path:
    return executed_in(workspace, language_of(path.resolve().parent) or ENGLISH) / path.name


def keep(notebook: Any, path: Path, workspace: Path) -> None:
    import nbformat

    file = place_of(path, workspace)
    file.parent.mkdir(parents=True, exist_ok=True)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = _in_one_piece(cell.outputs)
    anonymous.hide(notebook, anonymous.folders(workspace) | anonymous.people())
    nbformat.write(notebook, file)
    link_images(executed_in(workspace).parent, SHIPPED / "images")
    if (own := path.resolve().parent / "images").is_dir():
        link_images(file.parent, own)


def _in_one_piece(outputs: list[Any]) -> list[Any]:
    """Join the chunks of a stream, because a chunk may end within a name to be hidden."""
    whole: list[Any] = []
    for output in outputs:
        if whole and "name" in output and output.name == whole[-1].get("name"):
            whole[-1].text += output.text
        else:
            whole.append(output)
    return whole


def link_images(beside: Path, images: Path) -> None:
    """Link the images. Notebooks show `../images/…`, and translations also have their own."""
    link = beside / "images"
    with contextlib.suppress(FileExistsError):
        link.symlink_to(images)
