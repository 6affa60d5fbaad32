"""Files of recipes and sites as people write them: what is no TOML, and values of a wrong kind."""

from __future__ import annotations

import io
import reprlib
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from course_lib.lab.errors import LabError
from course_lib.lab.plain_files import without_waiting
from course_lib.mistakes.kinds import is_truth_value

LARGEST_BYTES = 4 << 20
"""Of a file that a person writes."""


def read_text(path: Path, kind: type[LabError]) -> str:
    try:
        content = _first_bytes(path)
        if len(content) > LARGEST_BYTES:
            raise kind(f"{path} has more than {LARGEST_BYTES >> 20} MiB: it is another file")
        return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8").read()
    except UnicodeDecodeError as error:
        raise kind(
            f"{path} cannot be read: it is no text (byte {error.start} is not UTF-8)"
        ) from error
    except OSError as error:
        raise kind(f"{path} cannot be read: {error.strerror}") from error


def _first_bytes(path: Path) -> bytes:
    """One more than a file may have. Devices never end, and pipes never begin: no waiting."""
    with open(path, "rb", opener=without_waiting) as file:
        return file.read(LARGEST_BYTES + 1) or b""


def parse(text: str, source: str, kind: type[LabError]) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise kind(f"{source} is not valid TOML: lists or tables nested too deep") from error
    except ValueError as error:  # also a number of thousands of digits
        raise kind(f"{source} is not valid TOML: {error}") from error


def problems(made: Any) -> list[str]:
    """What in a recipe or a site is no list, table or switch where one belongs."""
    found = []
    for entry in fields(made):
        if (rule := RULES.get(str(entry.type))) is None:
            continue
        is_right, what, example = rule
        value = getattr(made, entry.name)
        if not is_right(value):
            shown = reprlib.repr(value)
            found.append(f"{entry.name} = {shown} is not {what}; write {entry.name} = {example}")
    return found


def no_texts(made: Any) -> list[str]:
    """Of the fields that hold text; a name that is none is told by who says what it may be."""
    table = {entry.name: getattr(made, entry.name) for entry in fields(made) if entry.type == "str"}
    return [
        f'{name} {reprlib.repr(value)} is no text; write {name} = "…"'
        for name, value in table.items()
        if name != "name" and not isinstance(value, str)
    ]


def _is_scalar(value: Any) -> bool:
    return value is not None and not isinstance(value, Mapping | list | tuple | set)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_scalar, value))


def _is_list_of_commands(value: Any) -> bool:
    """A command that is one text is told in words of its own, by who knows the words."""
    return isinstance(value, list | tuple) and all(
        isinstance(line, str) or (_is_list(line) and line) for line in value
    )


def _has_names(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_is_scalar, value.values()))


RULES = {
    "Mapping[str, Any]": (_has_names, "a table of names and values", "{ lr = 1e-3 }"),
    "Mapping[str, str]": (_is_table, "a table of names and values", '{ NAME = "value" }'),
    "tuple[str, ...]": (_is_list, "a list of words", '["one", "two"]'),
    "tuple[tuple[str, ...], ...]": (
        _is_list_of_commands, "a list of commands, each a list of words",
        '[["module", "load", "cuda"]]',
    ),
    "bool": (is_truth_value, "true or false", "true"),
}  # fmt: skip
