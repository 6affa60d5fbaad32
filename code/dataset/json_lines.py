"""Reader of texts in a file of JSON lines, plain or compressed. An entry that is not text is an
error that names its line, so that no training reads unchecked data."""

from __future__ import annotations

import gzip
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from process.errors import DataError

# First bytes of such files, whatever their names are.
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def read_texts(path: Path, key: str) -> Iterator[str]:
    for number, line in enumerate(_lines(path), 1):
        if line.strip():
            yield _text_of(line, key, f"{path}, line {number}")


def _lines(path: Path) -> Iterator[bytes]:
    number = 0
    with _opened(path) as lines:
        try:
            for number, line in enumerate(lines, 1):
                # Byte-order mark that some editors write before UTF-8, and that JSON does not
                # allow.
                yield line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        except GeneratorExit:
            raise
        except Exception as error:  # each format raises its own errors if cut short
            raise DataError(
                f"{path} cannot be read beyond line {number}: {error}. Is it incomplete? Copy or "
                "pack it again"
            ) from error


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        begin = file.read(4)
    if begin[:2] == GZIP:
        return gzip.open(path, "rb")  # type: ignore[return-value]
    if begin == ZSTD:
        return _open_zstd(path)
    return path.open("rb")


def _open_zstd(path: Path) -> IO[bytes]:
    try:
        opened: IO[bytes] = importlib.import_module("zstandard").open(path, "rb")
    except ImportError as error:
        raise DataError(
            f"{path} needs the module zstandard: `pip install zstandard`, or unpack the file "
            f"with `zstd -d {path}`"
        ) from error
    return opened


def _text_of(line: bytes, key: str, where: str) -> str:
    try:
        found = json.loads(line.decode("utf-8"))[key]
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: byte {error.start + 1} (0x{line[error.start]:02x}) is not UTF-8. If the "
            "file is Latin-1: `iconv -f LATIN1 -t UTF-8`"
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
