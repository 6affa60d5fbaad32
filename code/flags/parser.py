"""argparse, but with all that is wrong told at once, and raised: every rank comes here, and one of
them is to speak.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from flags.ranges import OneOf, Several, Switch, Takes, Wrong, shortened
from process.errors import ArgumentsError

Row = tuple[str, Takes, Any, str]
"""Name, what it may be, default, meaning."""


class FlagParser(argparse.ArgumentParser):
    def __init__(self, description: str, groups: Mapping[str, Sequence[Row]]) -> None:
        super().__init__(description=description, allow_abbrev=False)
        for title, rows in groups.items():
            group = self.add_argument_group(title)
            for name, takes, default, meaning in rows:
                if isinstance(takes, Switch):
                    group.add_argument(name, action="store_true", help=meaning)
                    continue
                shown = "{" + ",".join(takes.words) + "}" if isinstance(takes, OneOf) else None
                several = "+" if isinstance(takes, Several) else None
                group.add_argument(
                    name, type=takes, nargs=several, default=default, help=meaning, metavar=shown
                )

    def error(self, message: str) -> NoReturn:
        """A missing value, or one too many: argparse cannot go on from there."""
        raise ArgumentsError([f"{message}; `--help` lists all flags"])

    def unknown(self, words: list[str]) -> list[str]:
        """An unknown flag is answered with the nearest known ones."""
        known = [option for action in self._actions for option in action.option_strings]
        found = []
        for word in words:
            name = shortened(word.split("=")[0])
            near = difflib.get_close_matches(name, known, n=3) if name.startswith("--") else []
            cure = f"nearest to {name}: {', '.join(near)}" if near else "`--help` lists all flags"
            found.append(f"unrecognized argument {shortened(word)!r}; {cure}")
        return found

    def parse_all(self, argv: list[str] | None) -> argparse.Namespace:
        """For programs whose flags do not depend on each other; raises all that is wrong."""
        args, unknown = self.parse_known_args(argv)
        if found := [*self.take_out_wrong(args).values(), *self.unknown(unknown)]:
            raise ArgumentsError(found)
        return args

    def take_out_wrong(self, args: argparse.Namespace) -> dict[str, str]:
        """What is wrong with each flag's value; its default stands in for it in further checks."""
        found = {}
        for name, value in vars(args).items():
            flag = f"--{name.replace('_', '-')}"
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, Wrong):
                    found[flag] = one.told(flag)
                    setattr(args, name, self.get_default(name))
        return found
