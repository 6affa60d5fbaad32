"""`course translate`: what of the course is translated, and the files in which translators work."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path

from course_lib.lab.errors import LabError
from course_lib.lab.workspace import PACKAGE, write_atomically
from course_lib.teach.translation.catalogs import (
    LANGUAGE_FILE,
    Translations,
    folder_of,
    language_of,
    read,
    text_of,
)
from course_lib.teach.translation.wanted import Wanted, everything

CODE = re.compile(r"[a-z]{2,3}")
NEW_LANGUAGE = """name = "{name}"
# Lessons of which every cell of prose is translated; tests hold that.
complete = []
# Above a cell that is still, or again, shown in English.
not_yet = "Not translated yet, or changed in English since."
"""


@dataclass(frozen=True)
class Coverage:
    """How much of one catalog is translated."""

    name: str
    cells: int
    cells_done: int
    sentences: int
    sentences_done: int
    changed: tuple[str, ...]
    missing: tuple[str, ...]
    """Ids of cells: translated from an English that has changed since, and never translated."""

    @property
    def is_complete(self) -> bool:
        return 0 < self.cells == self.cells_done


def coverage(name: str, wanted: list[Wanted], known: Translations) -> Coverage:
    cells = [one for one in wanted if one.cell]
    sentences = [one for one in wanted if not one.cell]
    changed = tuple(one.cell for one in cells if known.is_changed(one))
    return Coverage(
        name,
        len(cells),
        sum(bool(known.of(one)) for one in cells),
        len(sentences),
        sum(bool(known.of(one)) for one in sentences),
        changed,
        tuple(one.cell for one in cells if not known.of(one) and one.cell not in changed),
    )


def coverages(repository: Path, code: str) -> list[Coverage]:
    folder = folder_of(repository, code)
    return [
        coverage(name, wanted, read(folder / f"{name}.po"))
        for name, wanted in everything(repository).items()
    ]


def table(rows: list[Coverage]) -> str:
    width = max(len(row.name) for row in rows)
    lines = [f"{'':{width}}        cells    sentences"]
    for row in rows:
        cells = f"{row.cells_done} of {row.cells}" if row.cells else ""
        sentences = f"{row.sentences_done} of {row.sentences}"
        lines.append(f"{row.name:{width}}  {cells:>11}  {sentences:>11}".rstrip())
    cells = f"{sum(row.cells_done for row in rows)} of {sum(row.cells for row in rows)}"
    told, said = sum(row.sentences_done for row in rows), sum(row.sentences for row in rows)
    lines.append(f"{'together':{width}}  {cells:>11}  {f'{told} of {said}':>11}")
    for row in rows:
        if row.changed:
            lines.append(f"{row.name}: English changed since: {', '.join(row.changed)}")
        if row.missing and row.cells_done:
            lines.append(f"{row.name}: still in English: {', '.join(row.missing)}")
    return "\n".join(lines)


def update(repository: Path, code: str) -> list[str]:
    """Brings every catalog up to the present English; the names of those that it changed."""
    language_of(repository, code)
    changed = []
    for name, wanted in everything(repository).items():
        path = folder_of(repository, code) / f"{name}.po"
        text = text_of(code, wanted, read(path))
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            write_atomically(path, text)
            path.chmod(0o644)
            changed.append(path.name)
    return changed


def begin(repository: Path, code: str) -> list[str]:
    from babel import Locale, UnknownLocaleError

    if not CODE.fullmatch(code):
        raise LabError(f"{code!r} is no code of a language; write two small letters, such as de")
    path = folder_of(repository, code) / LANGUAGE_FILE
    if path.exists() or code == "en":
        raise LabError(f"{code} is there already; `course translate update {code}` brings it along")
    try:
        name = Locale(code).get_display_name(code) or code
    except UnknownLocaleError as error:
        raise LabError(f"{code!r} is the code of no language that Babel knows") from error
    write_atomically(path, NEW_LANGUAGE.format(name=name))
    path.chmod(0o644)
    return update(repository, code)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="course translate",
        description="status: what is translated, and what is not. update: brings the catalogs in "
        "locale/ up to date with the lessons. new: begins a language.",
    )
    parser.add_argument("action", choices=["status", "update", "new"])
    parser.add_argument("language", nargs="?", default="ko", help="its code, such as ko")
    options = parser.parse_args(argv)
    repository, code = PACKAGE.parent, options.language
    if not (repository / "lessons").is_dir():
        raise LabError("there is no lessons/ here; translating works in a clone only")
    if options.action == "status":
        language_of(repository, code)
        print(table(coverages(repository, code)))
        return 0
    changed = (begin if options.action == "new" else update)(repository, code)
    print("\n".join(f"locale/{code}/{name}: written" for name in changed) or "nothing has changed")
    return 0
