"""Variant of argparse that raises all problems at once instead of printing the first: every rank
parses, but only one prints."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from flags.other_names import CURES
from flags.ranges import OneOf, Several, Switch, Takes, Whole, Wrong
from process.errors import ArgumentsError

# Characters that editors and web pages substitute for a hyphen.
DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
BEHIND = "no flag before it takes it, so leave it out"
UNLIKE_ANY = "this program has no such flag: leave it out; `--help` lists all flags"
LEAST_ALIKE = 0.7
# Name, range, default, meaning.
Row = tuple[str, Takes, Any, str]
# Flags of every program that starts a process group.
DISTRIBUTED: list[Row] = [
    ("--distributed-backend", OneOf(("nccl", "gloo")), "nccl", "use gloo without a GPU"),
    ("--distributed-timeout-minutes", Whole(1, 100_000), 10, "wait for a lost rank"),
]


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
        """Raise the error for a missing or superfluous value. argparse cannot continue after it."""
        if "ignored explicit argument" in message:
            message += ": it takes no value"
        raise ArgumentsError(f"{message}; `--help` lists all flags")

    def unknown(self, words: list[str]) -> list[str]:
        """Return a message for each unknown flag, with the intended or the most similar flags."""
        found: list[str] = []
        for word in words:
            if word and word[0] in DASHES and not word[1:2].isdigit():
                found.append(f"unrecognized argument {word!r}; {self._cure(word.split('=')[0])}")
            elif not found:  # otherwise the value of the previous flag
                found.append(f"unrecognized argument {word!r}; {BEHIND}")
        return found

    def _cure(self, name: str) -> str:
        known = [option for action in self._actions for option in action.option_strings]
        meant = "-".join(re.findall(r"\w+", name.lower().replace("_", "-")))
        if f"--{meant}" in known:
            return f"write --{meant}"
        if meant in CURES:
            return f"here it is {CURES[meant]}" if "-" in CURES[meant][:2] else CURES[meant]
        near = difflib.get_close_matches(f"--{meant}", known, n=3, cutoff=LEAST_ALIKE)
        return f"nearest to {name}: {', '.join(near)}" if near else UNLIKE_ANY

    def parse_all(self, argv: list[str] | None, needed: Sequence[str] = ()) -> argparse.Namespace:
        """Parse flags that do not depend on each other; raise all problems at once."""
        args, unknown = self.parse_known_args(argv)
        found = [*self.take_out_wrong(args).values(), *self.unknown(unknown)]
        found += [f"give {flag}" for flag in needed if vars(args)[name_of(flag)] is None]
        if found:
            raise ArgumentsError(*found)
        return args

    def take_out_wrong(self, args: argparse.Namespace) -> dict[str, str]:
        """Return the problem of each wrong flag, and replace its value by the default."""
        found = {}
        for name, value in vars(args).items():
            flag = f"--{name.replace('_', '-')}"
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, Wrong):
                    found[flag] = one.sentence(flag)
                    setattr(args, name, self.get_default(name))
        return found


def name_of(flag: str) -> str:
    """Return the name of a flag's value."""
    return flag.removeprefix("--").replace("-", "_")
