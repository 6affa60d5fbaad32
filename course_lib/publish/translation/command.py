"""`course translate`: show the translated share of the course, and update the catalogs."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from course_lib.lab.errors import LabError
from course_lib.lab.workspace import PACKAGE, write_atomically
from course_lib.publish.translation.catalogs import (
    Translations,
    compiled,
    compiled_path,
    folder_of,
    language_of,
    read,
    text_of,
)
from course_lib.publish.translation.wanted import Wanted, everything


@dataclass(frozen=True)
class Coverage:
    """Translated share of one catalog."""

    name: str
    wanted: list[Wanted]
    known: Translations

    def done(self, *, cells: bool) -> list[bool]:
        """Tell for each prose cell, or for each sentence, whether it is translated."""
        return [bool(self.known.of(one)) for one in self.wanted if bool(one.cell) == cells]

    def undone(self, *, changed: bool) -> str:
        """Return the ids of untranslated cells. With `changed`, return the cells that have a
        translation of an older English text; without it, return the cells that have none.
        """
        cells = [one for one in self.wanted if one.cell and not self.known.of(one)]
        return ", ".join(one.cell for one in cells if self.known.is_changed(one) == changed)


def coverages(repository: Path, code: str) -> list[Coverage]:
    folder = folder_of(repository, code)
    return [
        Coverage(name, wanted, read(folder / f"{name}.po"))
        for name, wanted in everything(repository).items()
    ]


def table(rows: list[Coverage]) -> str:
    width = max(len(row.name) for row in rows)
    lines = [f"{'':{width}}        cells    sentences"]
    for row in rows:
        counts = _counts(row.done(cells=True), row.done(cells=False))
        lines.append(f"{row.name:{width}}  {counts}".rstrip())
    cells, sentences = (
        [each for row in rows for each in row.done(cells=of_cells)] for of_cells in (True, False)
    )
    lines.append(f"{'together':{width}}  {_counts(cells, sentences)}")
    for row in rows:
        if changed := row.undone(changed=True):
            lines.append(f"{row.name}: English changed since: {changed}")
        if (missing := row.undone(changed=False)) and any(row.done(cells=True)):
            lines.append(f"{row.name}: still in English: {missing}")
    return "\n".join(lines)


def _counts(cells: list[bool], sentences: list[bool]) -> str:
    of_cells = f"{sum(cells)} of {len(cells)}" if cells else ""
    return f"{of_cells:>11}  {f'{sum(sentences)} of {len(sentences)}':>11}"


def update(repository: Path, code: str) -> list[str]:
    """Update and compile all catalogs; return the names of changed files."""
    language_of(repository, code)
    changed = []
    for name, wanted in everything(repository).items():
        path = folder_of(repository, code) / f"{name}.po"
        text = text_of(code, wanted, read(path))
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            write_atomically(path, text)
            path.chmod(0o644)
            changed.append(path.name)
    path, made = compiled_path(repository, code), compiled(repository, code)
    if not path.is_file() or path.read_bytes() != made:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(made)
        changed.append(str(path.relative_to(folder_of(repository, code))))
    return changed


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="course translate",
        description="status: count what is translated, and name what is not. update: bring the "
        "catalogs in locale/ up to date with the lessons.",
    )
    parser.add_argument("action", choices=["status", "update"])
    parser.add_argument("language", nargs="?", default="ko", help="its code, such as ko")
    options = parser.parse_args(argv)
    repository, code = PACKAGE.parent, options.language
    if not (repository / "lessons").is_dir():
        raise LabError("there is no lessons/ here; translating works in a clone only")
    if options.action == "status":
        language_of(repository, code)
        print(table(coverages(repository, code)))
        return 0
    changed = update(repository, code)
    print("\n".join(f"locale/{code}/{name}: written" for name in changed) or "nothing has changed")
    return 0
