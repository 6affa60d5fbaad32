"""Gathers the options of a submission from its three places, weakest first."""

from __future__ import annotations

import os
import sys

from course_lib.box.commands.shared import advice
from course_lib.box.commands.shared.errors import Unsupported
from course_lib.box.commands.shared.getopt import NONE, Syntax
from course_lib.box.commands.submit.job_fields import SETTERS, Fields
from course_lib.box.commands.submit.option_table import Option, options_of

HARMLESS = ("none", "no", "off", "n")
"""Values by which an option that has no effect asks for none."""


WORDS_OF_SLURM = {"cpu-bind": "cluster configuration lacks support for cpu binding"}
"""What a Slurm without the plugin for it says."""


class Gathered:
    """What was asked for so far: job fields, and the options that the command looks at itself."""

    def __init__(self, command: str, letter: str, prefix: str) -> None:
        self.command = command
        self.prefix = prefix
        self.options: dict[str, Option] = {option.name: option for option in options_of(letter)}
        spec = " ".join(option.spelling for option in self.options.values())
        self.syntax = Syntax(command, spec, stop_at_word=True)
        self.fields: Fields = {}
        self.given: dict[str, str] = {}
        self.sources: dict[str, str] = {}
        self.notes: list[str] = []

    def apply(self, pairs: list[tuple[str, str | None]], source: str) -> None:
        for name, value in pairs:
            self._apply_one(self.options[name], value or "", source)

    def _apply_one(self, option: Option, value: str, source: str) -> None:
        name = option.name
        if option.fate == "no" and source == "environment":
            self.say_left_aside(name, value)
            return
        if option.fate == "no":
            raise Unsupported(f"--{name}", advice.of_option(name))
        silent = value in HARMLESS and name not in WORDS_OF_SLURM
        if option.fate == "note" and name not in self.notes and not silent:
            self.notes.append(name)
        count = int(self.given.get("verbose", "0")) + 1
        self.given[name] = str(count) if name in ("verbose", "quiet") else value
        self.sources[name] = source
        if name == "threads-per-core" and self.command == "srun" and "cpu-bind" not in self.notes:
            self.notes.append("cpu-bind")  # which Slurm takes it for
        if name in SETTERS:
            SETTERS[name](value, self.fields)

    def apply_environment(self, skip: tuple[str, ...] = ()) -> None:
        """SBATCH_* or SLURM_*: a flag is on for an empty value, `yes` or a number but 0."""
        for option in self.options.values():
            if option.variable == "-" or option.name in skip:
                continue
            value = os.environ.get(self.prefix + option.variable)
            if value is None:
                continue
            if self.syntax.kind[option.name] == NONE and not _is_on(value):
                continue
            self._apply_one(option, value, "environment")

    def say_left_aside(self, name: str, value: str, why: str = "") -> None:
        """A variable of a profile that is made for another cluster must not stop every job here."""
        variable = self.prefix + self.options[name].variable
        reason = why or f"the box does not do --{name}"
        print(f"{self.command}: note: {variable}={value} is left aside: {reason}", file=sys.stderr)

    def say_notes(self) -> None:
        for name in self.notes:
            own = f"note: the box accepts --{name} and does nothing with it"
            print(f"{self.command}: {WORDS_OF_SLURM.get(name, own)}", file=sys.stderr)


def _is_on(value: str) -> bool:
    return value in ("", "yes") or (value.lstrip("-").isdigit() and int(value) != 0)
