"""Reading of files that another program may have written, cut or replaced.

A reader says what it expects. Whatever a library raises for other content ends in one sentence, and
no file may stop a program or fill its memory."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from process.errors import AskedError, DataError

# No vocabulary, configuration or description of a checkpoint is larger.
MOST_BYTES = 2**28


@contextlib.contextmanager
def understood(path: Path, what: str, cure: str) -> Iterator[None]:
    """Raise one sentence for any error of reading this file."""
    try:
        if path.exists() and not path.is_file():  # a pipe may block, a device may have no end
            raise ValueError("it is a folder, a pipe or a device")
        yield
    except AskedError:
        raise
    except Exception as error:  # libraries raise almost anything for a foreign file
        why = f"cannot be read as {what}" if path.exists() else "does not exist"
        said = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path} {why} ({said[:300]}); {cure}") from error


def content_of(path: Path) -> bytes:
    if path.stat().st_size > MOST_BYTES or not path.is_file():
        raise ValueError(f"it is not a file of at most {MOST_BYTES} bytes")
    return path.read_bytes()


def read_json(path: Path) -> Any:
    """Read JSON without NaN and infinity: training would continue with them without a word."""
    try:
        return json.loads(content_of(path), parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name} is not readable: {error}") from error


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(text)
    return number
