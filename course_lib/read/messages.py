"""Sentences and errors of the readers. A program around them may translate the sentences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class ReadError(Exception):
    """A question that cannot be answered; the text says what to ask instead."""


class NoSuchFileError(ReadError, FileNotFoundError):
    """No file, or none of the wanted kind, where one was looked for."""


def fill(message: str, /, **values: object) -> str:
    return message.format(**values) if values else message


translator: Callable[..., str] = fill


def _(message: str, /, **values: object) -> str:
    """The sentence in the reader's language. Values are filled in after it is translated."""
    return translator(message, **values)


class N_(str):
    """A sentence in a table or a constant. As a value it is English: it can be compared, and be a
    key. It is translated when it is shown: printed, filled into another sentence, or cut up."""

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
