"""Build `notebooks/` (with gaps) and `solutions/` (with answers) from `lessons/NN_name.py`.

A lesson's number may have a letter: `NNb_name.py`. gaps.py describes how a cell marks answers.
Cells tagged `solution` are left out of the learner's notebook, and cells tagged `exercise-only`
out of the solution. Lines that begin with `#> ` at the end of a code cell are its output on any
machine. They become the stored output, which nbval compares. The same source gives the same bytes
everywhere. Links to the previous and next lesson stand below the title and at the end.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from course_lib.lab.errors import LabError
from course_lib.publish.building.gaps import answered, with_gaps
from course_lib.publish.building.prose import listed
from course_lib.publish.building.source import AFTER_GUESS, Cell, Lesson, lessons_in, read_lesson
from course_lib.publish.translation.localized import localized_lessons
from course_lib.publish.translation.pictures import localized_pictures
from course_lib.words import ENGLISH

PRINTS = "#> "
COMPARED = "nbval-check-output"
LINKS_CELL = "other-lessons"
SOURCE_ONLY_TAGS = {"solution", "exercise-only"}
NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def build_text(lesson: Lesson, *, with_answers: bool, links: str = "") -> str:
    """Return the notebook file's text; `links` comes from `links_around`."""
    left_out = "exercise-only" if with_answers else "solution"
    cells = [
        _notebook_cell(lesson, cell, with_answers)
        for cell in with_links(lesson, links)
        if left_out not in cell.tags
    ]
    notebook = {"cells": cells, "metadata": NOTEBOOK_METADATA, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def links_around(lessons: list[Lesson], number: int) -> str:
    """Return links to the previous and the next lesson, if they exist."""
    before = [f"← {_link(lesson)}" for lesson in lessons[:number][-1:]]
    after = [f"{_link(lesson)} →" for lesson in lessons[number + 1 :][:1]]
    return " · ".join([*before, *after])


def _link(lesson: Lesson) -> str:
    return f"[{lesson.title}]({lesson.name}.ipynb)"


def with_links(lesson: Lesson, links: str) -> list[Cell]:
    """Return the cells, with the links below the title and in an additional last cell."""
    if not links:
        return list(lesson.cells)
    title = f"# {lesson.title}\n"
    below = f"{title}\n{links}\n"
    cells = [replace(cell, text=cell.text.replace(title, below, 1)) for cell in lesson.cells]
    return [*cells, Cell(LINKS_CELL, "markdown", (), links, lesson.cells[-1].line)]


def _notebook_cell(lesson: Lesson, cell: Cell, with_answers: bool) -> dict[str, object]:
    where = f"{lesson.path}:{cell.line}"
    text = answered(cell.text, where) if with_answers else with_gaps(cell.text, where)
    source, printed = _split_printed(text)
    only = {*SOURCE_ONLY_TAGS, AFTER_GUESS} if with_answers else SOURCE_ONLY_TAGS
    tags = [tag for tag in cell.tags if tag not in only]
    if printed:
        tags.append(COMPARED)
    metadata: dict[str, object] = {"tags": tags} if tags else {}
    if cell.is_folded:
        metadata["jupyter"] = {"source_hidden": True}
    fields: dict[str, object] = {
        "cell_type": cell.kind,
        "id": cell.id,
        "metadata": metadata,
        "source": source.splitlines(keepends=True),
    }
    if cell.kind == "code":
        stored = {"name": "stdout", "output_type": "stream", "text": printed}
        # nbval compares only cells that have an execution count
        count = 1 if printed else None
        fields |= {"execution_count": count, "outputs": [stored] if printed else []}
    return fields


def _split_printed(text: str) -> tuple[str, list[str]]:
    lines = text.split("\n")
    printed = [line.removeprefix(PRINTS) + "\n" for line in lines if line.startswith(PRINTS)]
    source = "\n".join(line for line in lines if not line.startswith(PRINTS))
    return source.rstrip("\n") if printed else source, printed


def outputs(repository: Path, language: str = ENGLISH) -> dict[Path, str]:
    """Return every file that a build writes, with its text.

    A translation has its own folder, such as `notebooks/ko/`.
    """
    files: dict[Path, str] = {}
    lessons = [read_lesson(path) for path in lessons_in(repository / "lessons", "py")]
    if language != ENGLISH:
        pictures = localized_pictures(repository, language)
        lessons = localized_lessons(lessons, repository, language, pictures)
        for name, picture in pictures.items():
            for kind in ("notebooks", "solutions"):
                files[folder_of(repository, kind, language) / "images" / name] = picture
    for number, lesson in enumerate(lessons):
        links = links_around(lessons, number)
        for kind, with_answers in (("notebooks", False), ("solutions", True)):
            text = build_text(lesson, with_answers=with_answers, links=links)
            files[folder_of(repository, kind, language) / f"{lesson.name}.ipynb"] = text
    return files


def folder_of(repository: Path, kind: str, language: str) -> Path:
    return repository / kind / ("" if language == ENGLISH else language)


def differing(repository: Path, language: str = ENGLISH) -> list[str]:
    """Return the files that a build would change: different, missing, or without a lesson."""
    wanted = outputs(repository, language)
    folders = [folder_of(repository, kind, language) for kind in ("notebooks", "solutions")]
    kinds = ["*.ipynb"] if language == ENGLISH else ["*.ipynb", "images/*.svg"]
    found = {path for folder in folders for kind in kinds for path in folder.glob(kind)}
    changed = [
        path
        for path, text in wanted.items()
        if not path.is_file() or path.read_bytes() != text.encode()
    ]
    return sorted(str(path.relative_to(repository)) for path in {*changed, *(found - set(wanted))})


def write(repository: Path, language: str = ENGLISH) -> list[str]:
    changed = differing(repository, language)
    wanted = outputs(repository, language)
    for name in changed:
        path = repository / name
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(wanted[path].encode())
        else:
            path.unlink()
    return changed


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="course build", description="Writes notebooks/ and solutions/ from lessons/."
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if a file would change"
    )
    parser.add_argument(
        "--language", default=ENGLISH, help="language; ko writes notebooks/ko/ and solutions/ko/"
    )
    parser.add_argument(
        "--prose", action="store_true", help="write nothing; list sentences that are hard to read"
    )
    options = parser.parse_args(argv)
    repository = Path(__file__).resolve().parents[3]
    if not (repository / "lessons").is_dir():
        raise LabError("there is no lessons/ here; `course build` works in a clone only")
    if options.prose:
        print(*listed(repository), sep="\n")
        return 0
    changed = (differing if options.check else write)(repository, options.language)
    for name in changed:
        print(f"{name}: {'differs from its lesson' if options.check else 'written'}")
    if not changed:
        print("notebooks and solutions are what the lessons say")
    elif options.check:
        print("course build: run `course build` and commit what it writes", file=sys.stderr)
    return int(options.check and bool(changed))
