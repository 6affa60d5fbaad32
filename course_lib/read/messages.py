"""Messages and errors of the readers, which a surrounding program may translate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class ReadError(Exception):
    """Error: the data cannot answer a question. The text says what to ask instead."""


class NoSuchFileError(ReadError, FileNotFoundError):
    """Missing file, or no file of the wanted kind."""


def fill(message: str, /, **values: object) -> str:
    return message.format(**values) if values else message


translator: Callable[..., str] = fill


def _(message: str, /, **values: object) -> str:
    """Return the message in the user's language; values are filled in after the translation."""
    return translator(message, **values)


class N_(str):
    """Message in a table or a constant. Its value is English, so that it can be compared and be a
    key. It is translated when it is printed, filled into another message, or split."""

    def __new__(cls, message: str, /) -> N_:
        return super().__new__(cls, message)

    def __str__(self) -> str:
        return _(super().__str__())

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __add__(self, other: str) -> str:
        return str(self) + other

    def __radd__(self, other: str) -> str:
        return other + str(self)

    def format(self, *args: object, **values: object) -> str:
        return str(self).format(*args) if args else _(super().__str__(), **values)


def _translated_first(name: str) -> Any:
    def method(self: N_, *args: Any, **named: Any) -> Any:
        return getattr(str(self), name)(*args, **named)

    return method


for _name in ("capitalize", "partition", "replace", "split", "splitlines", "strip"):
    setattr(N_, _name, _translated_first(_name))
