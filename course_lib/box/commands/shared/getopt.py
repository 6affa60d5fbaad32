"""Reads a command line as GNU getopt_long does, and complains in its words.

`argparse` takes longer to import than a whole `squeue`, abbreviates differently and words its
errors differently.
"""

from __future__ import annotations

import os

NONE, REQUIRED, OPTIONAL = 0, 1, 2


def from_environment(prefix: str, names: tuple[str, ...]) -> dict[str, str]:
    """Options that a variable sets, such as SQUEUE_STATES."""
    pairs = ((name, os.environ.get(prefix + name.upper())) for name in names)
    return {name: value for name, value in pairs if value}


class UsageError(Exception):
    """The command line cannot be read; the text is one line, as getopt prints it."""


class Syntax:
    """Which options a command has, and whether words may stand between them.

    `spec` has one option per word: `long,s` (flag), `long,s=` (takes a value),
    `long,s?` (may take one). The short letter may be missing.
    """

    def __init__(self, command: str, spec: str, *, stop_at_word: bool = False) -> None:
        self.command = command
        self.stop_at_word = stop_at_word
        self.kind: dict[str, int] = {}
        self.short: dict[str, str] = {}
        for word in spec.split():
            kind = {"=": REQUIRED, "?": OPTIONAL}.get(word[-1], NONE)
            long, _, letter = word.rstrip("=?").partition(",")
            self.kind[long] = kind
            if letter:
                self.short[letter] = long

    def parse(self, arguments: list[str]) -> tuple[list[tuple[str, str | None]], list[str]]:
        """Options in the order given (name, value), and the remaining words."""
        found: list[tuple[str, str | None]] = []
        words: list[str] = []
        rest = list(arguments)
        while rest:
            word = rest.pop(0)
            if word == "--":
                words += rest
                break
            if word.startswith("--"):
                found.append(self._long(word, rest))
            elif len(word) > 1 and word[0] == "-":
                found += self._letters(word[1:], rest)
            elif self.stop_at_word:
                words += [word, *rest]
                break
            else:
                words.append(word)
        return found, words

    def _long(self, word: str, rest: list[str]) -> tuple[str, str | None]:
        written, equals, value = word[2:].partition("=")
        name = self._resolve(word, written)
        kind = self.kind[name]
        if kind == NONE and equals:
            raise UsageError(f"{self.command}: option '--{name}' doesn't allow an argument")
        if kind == REQUIRED and not equals:
            if not rest:
                raise UsageError(f"{self.command}: option '--{name}' requires an argument")
            return name, rest.pop(0)
        return name, value if equals else None

    def _resolve(self, word: str, written: str) -> str:
        if written in self.kind:
            return written
        near = [name for name in self.kind if name.startswith(written)]
        if len(near) == 1:
            return near[0]
        if not near:
            raise UsageError(f"{self.command}: unrecognized option '{word}'")
        listed = " ".join(f"'--{name}'" for name in near)
        raise UsageError(f"{self.command}: option '{word}' is ambiguous; possibilities: {listed}")

    def _letters(self, letters: str, rest: list[str]) -> list[tuple[str, str | None]]:
        found: list[tuple[str, str | None]] = []
        while letters:
            letter, letters = letters[0], letters[1:]
            name = self.short.get(letter)
            if name is None:
                raise UsageError(f"{self.command}: invalid option -- '{letter}'")
            kind = self.kind[name]
            if kind == NONE:
                found.append((name, None))
                continue
            if kind == REQUIRED and not letters:
                if not rest:
                    raise UsageError(f"{self.command}: option requires an argument -- '{letter}'")
                letters = rest.pop(0)
                found.append((name, letters))
                break
            found.append((name, letters or None))
            break
        return found
