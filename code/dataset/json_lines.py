"""Reader of texts in a file of JSON lines. An entry that is not text is an error that names its
line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from process.errors import DataError


def read_texts(path: Path, key: str) -> Iterator[str]:
    for number, line in enumerate(_lines(path), 1):
        if line.strip():
            yield _text_of(line, key, f"{path}, line {number}")


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            # Byte-order mark that some editors write before UTF-8, and that JSON does not allow.
            yield line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def _text_of(line: bytes, key: str, where: str) -> str:
    try:
        found = json.loads(line.decode("utf-8"))[key]
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: byte {error.start + 1} (0x{line[error.start]:02x}) is not UTF-8. If the "
            "file is Latin-1: `iconv -f LATIN1 -t UTF-8`; if it is packed: unpack it"
        ) from error
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise DataError(f'{where}: expected a JSON object with "{key}", one per line') from error
    if not isinstance(found, str):
        raise DataError(
            f'{where}: "{key}" is {json.dumps(found)[:40]}, not a text; --json-keys names the '
            "entry that holds the text"
        )
    try:
        found.encode("utf-8")
    except UnicodeEncodeError as error:  # JSON can write half a surrogate pair, UTF-8 cannot
        half = f"\\u{ord(found[error.start]):04x}"
        raise DataError(
            f"{where}: {half} is half of a character (a lone surrogate); write both halves or "
            "neither"
        ) from error
    return found
