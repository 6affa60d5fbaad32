"""JSON files of a checkpoint: flushed to disk when written, and validated when read."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

from flags.ranges import shortened

MOST_BYTES = 2**26
MEANINGS = {int: "a whole number, not negative", float: "a number, not negative",
            bool: "true or false", str: "a text", object: "a single value"}  # fmt: skip


def write_json(path: Path, content: Any) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def read_json(path: Path, form: Any) -> Any:
    """Read a JSON file; raise a ValueError if it does not have this form (`check`)."""
    try:
        content = json.loads(small_file(path, MOST_BYTES))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name} is not readable") from error
    check(content, form, path.name)
    return content


def small_file(path: Path, most_bytes: int) -> bytes:
    """Read at most `most_bytes` of a regular file; a pipe could block forever."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a file", str(path))
    with path.open("rb") as file:
        size_bytes = os.fstat(file.fileno()).st_size  # `read` allocates memory before it reads
        return file.read(min(size_bytes, most_bytes))


def check(value: Any, form: Any, where: str) -> None:
    """Raise a ValueError if a value does not have this form. A form is a type, a list of forms (one
    form for any length), or a dictionary of forms by name, with `str` for any other name."""
    if isinstance(form, dict):
        if not isinstance(value, dict):
            raise ValueError(f"{where} has no values")
        if missing := [name for name in form if name not in (str, *value)]:
            raise ValueError(f"{where} has no entry {missing[0]}")
        for name, part in value.items():
            check(part, form.get(name, form.get(str)), f"{where}: {shortened(name)}")
    elif isinstance(form, list):
        if not isinstance(value, list) or len(form) not in (1, len(value)):
            raise ValueError(f"{where} is not a list of {len(form) if len(form) > 1 else 'values'}")
        for number, part in enumerate(value):
            check(part, form[number % len(form)], where)
    elif form is None:
        raise ValueError(f"{where} is unknown to this program")
    elif isinstance(value, dict | list) if form is object else not _is_one(value, form):
        raise ValueError(f"{where} is {shortened(str(value))}, not {MEANINGS[form]}")


def form_of(example: Any) -> Any:
    if isinstance(example, dict):
        return {name: form_of(part) for name, part in example.items()}
    return type(example)


def _is_one(value: Any, kind: type) -> bool:
    if isinstance(value, int | float) and not 0 <= value < 2**63:  # NaN and Infinity neither
        return False
    return type(value) is kind or (kind is float and type(value) is int)
