"""Catalogs on disk: read, brought up to date with the English, written with few lines changed."""

from __future__ import annotations

import io
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_lib.lab.errors import LabError
from course_lib.teach.translation.wanted import Wanted

LANGUAGE_FILE = "language.toml"
CHANGES_WITH_EACH_WRITING = ("Project-Id-Version", "Report-Msgid-Bugs-To", "POT-Creation-Date",
                             "PO-Revision-Date", "Generated-By", "Last-Translator",
                             "Language-Team", "Plural-Forms")  # fmt: skip


@dataclass(frozen=True)
class Language:
    code: str
    name: str
    complete: tuple[str, ...]
    """Lessons of which every cell is translated; tests hold this."""
    not_yet: str
    """Above a cell that is shown in English."""


@dataclass
class Translations:
    """Of one catalog: by id and English of a cell, and by the English of a sentence."""

    cells: dict[tuple[str, str], str] = field(default_factory=dict)
    former: dict[str, str] = field(default_factory=dict)
    """Of each cell that was translated once, the translation, whatever its English was."""
    sentences: dict[str, str] = field(default_factory=dict)

    def of(self, wanted: Wanted) -> str:
        """Empty where there is none, or none of this English."""
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
            f"`course translate new {code}` begins one"
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
    """The file. A translation of what a cell said before stays, marked as fuzzy: it is not shown,
    and whoever mends it begins with it."""
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
