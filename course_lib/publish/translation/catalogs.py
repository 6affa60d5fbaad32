"""Catalog files: read them, update them to the English text, and write them with small diffs."""

from __future__ import annotations

import io
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from course_lib.lab.errors import LabError
from course_lib.publish.building.source import lessons_in, read_lesson
from course_lib.publish.translation.wanted import LIBRARY, Wanted, labels_of
from course_lib.words.messages import DOMAIN, LABEL

LANGUAGE_FILE = "language.toml"
CHANGES_WITH_EACH_WRITING = ("Project-Id-Version", "Report-Msgid-Bugs-To", "POT-Creation-Date",
                             "PO-Revision-Date", "Generated-By", "Last-Translator",
                             "Language-Team", "Plural-Forms")  # fmt: skip


@dataclass(frozen=True)
class Language:
    code: str
    name: str
    # Lessons that are completely translated, as tests verify.
    complete: tuple[str, ...]
    # Note above a cell that is shown in English.
    not_yet: str


@dataclass
class Translations:
    """Translations in one catalog: cells by id and English text, sentences by English text."""

    cells: dict[tuple[str, str], str] = field(default_factory=dict)
    # Last translation of each cell, whatever its English text was.
    former: dict[str, str] = field(default_factory=dict)
    sentences: dict[str, str] = field(default_factory=dict)

    def of(self, wanted: Wanted) -> str:
        """Return the translation; empty if it is missing or for an older English text."""
        if wanted.cell:
            return self.cells.get((wanted.cell, wanted.english), "")
        return self.sentences.get(wanted.english, "")

    def is_changed(self, wanted: Wanted) -> bool:
        return bool(wanted.cell) and not self.of(wanted) and wanted.cell in self.former


def folder_of(repository: Path, code: str) -> Path:
    return repository / "locale" / code


def language_of(repository: Path, code: str) -> Language:
    path = folder_of(repository, code) / LANGUAGE_FILE
    if not path.is_file():
        known = sorted(found.parent.name for found in path.parent.parent.glob(f"*/{LANGUAGE_FILE}"))
        raise LabError(
            f"there is no translation into {code!r}; there are: {', '.join(known) or 'none'}. "
            f"To begin one, write {path} and run `course translate update {code}`"
        )
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return Language(code, table["name"], tuple(table["complete"]), table["not_yet"])


def read(path: Path) -> Translations:
    found = Translations()
    if not path.is_file():
        return found
    from babel.messages.pofile import read_po

    with path.open("rb") as file:
        messages = read_po(file)
    for message in messages:
        english, said = str(message.id), str(message.string or "")
        if not english or not said:
            continue
        if message.context:
            found.former[message.context] = said
            if not message.fuzzy:
                found.cells[message.context, english] = said
        elif not message.fuzzy:
            found.sentences[english] = said
    return found


def text_of(code: str, wanted: Iterable[Wanted], known: Translations) -> str:
    """Return the catalog as text.

    A translation of a cell's older text is kept and marked fuzzy. Readers do not see it, and the
    translator can start from it.
    """
    from babel.messages.catalog import Catalog
    from babel.messages.pofile import write_po

    catalog = Catalog(locale=code, fuzzy=False)
    for one in wanted:
        marks: dict[str, Any] = {"locations": [(one.place, 1)], "context": one.cell or None}
        if known.is_changed(one):
            catalog.add(one.english, known.former[one.cell], flags=["fuzzy"], **marks)
        else:
            catalog.add(one.english, known.of(one), **marks)
    file = io.BytesIO()
    write_po(file, catalog, width=0, include_lineno=False)
    lines = file.getvalue().decode().splitlines(keepends=True)
    begins = tuple(f'"{name}:' for name in CHANGES_WITH_EACH_WRITING)
    kept = [line for line in lines if not line.startswith(("# ", "#\n", *begins))]
    return "".join(kept)


def compiled(repository: Path, code: str) -> bytes:
    """Compile the `.mo` file that the library reads: its sentences and the lessons' labels."""
    from babel.messages.catalog import Catalog
    from babel.messages.mofile import write_mo

    folder = folder_of(repository, code)
    library = read(folder / f"{LIBRARY}.po").sentences
    never = datetime(2000, 1, 1, tzinfo=UTC)
    catalog = Catalog(locale=code, fuzzy=False, creation_date=never, revision_date=never)
    for english, said in library.items():
        catalog.add(english, said)
    for path in lessons_in(repository / "lessons", "py"):
        known = read(folder / f"{path.stem}.po").sentences
        for text in labels_of(read_lesson(path)):
            if said := known.get(text) or library.get(text, ""):
                catalog.add(text, said, context=LABEL)
    file = io.BytesIO()
    write_mo(file, catalog)
    return file.getvalue()


def compiled_path(repository: Path, code: str) -> Path:
    return folder_of(repository, code) / "LC_MESSAGES" / f"{DOMAIN}.mo"
