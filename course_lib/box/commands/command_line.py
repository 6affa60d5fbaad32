"""Reader of command lines in the style of GNU getopt_long, with one-line errors.

`argparse` takes longer to import than a whole `squeue`. Its abbreviations and error messages are
different too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

NONE, REQUIRED, OPTIONAL = 0, 1, 2


def from_environment(names: dict[str, str]) -> dict[str, str]:
    """Return the options that variables set, such as SQUEUE_STATES."""
    return {option: os.environ[name] for name, option in names.items() if os.environ.get(name)}


def comma_list(text: str) -> set[str]:
    return {word for word in text.split(",") if word}


def listed(options: dict[str, str], name: str) -> set[str] | None:
    """Return the words of a filter, or None without it. A filter without words passes nothing."""
    return comma_list(options[name]) if name in options else None


class UsageError(Exception):
    """Error: the command line cannot be read. The text is one line, as getopt prints it."""


class AboutItself(Exception):
    """Request for `help`, `usage` or `version`, after which the command does nothing else."""

    def __init__(self, syntax: Syntax, what: str) -> None:
        super().__init__(what)
        self.syntax, self.what = syntax, what


class Syntax:
    """The options of a command, and whether words may stand between them.

    `spec` has one option per word: `long,s` (flag), `long,s=` (takes a value), `long,s?` (may take
    one). The short letter is optional. `long|alias=` has a second name. The box refuses options
    whose word ends in `!`.
    """

    def __init__(self, command: str, spec: str, *, stop_at_word: bool = False) -> None:
        self.command = command
        self.stop_at_word = stop_at_word
        self.kind: dict[str, int] = {}
        self.short: dict[str, str] = {}
        self.alias: dict[str, str] = {}
        self.refused: set[str] = set()
        for marked in spec.split():
            word = marked.rstrip("!")
            kind = {"=": REQUIRED, "?": OPTIONAL}.get(word[-1], NONE)
            names, _, letter = word.rstrip("=?").partition(",")
            long, *aliases = names.split("|")
            self.kind |= dict.fromkeys([*aliases, long], kind)
            self.alias |= dict.fromkeys([*aliases, long], long)
            if word != marked:
                self.refused.add(long)
            if letter:
                self.short[letter] = long

    def parse(self, arguments: list[str]) -> tuple[list[tuple[str, str | None]], list[str]]:
        """Return the options (name, value) in the order given, and the remaining words."""
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
        for name, _ in found:
            if name in ("help", "usage", "version"):
                raise AboutItself(self, name)
            if name in self.refused:
                raise Unsupported(f"--{name}")
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
        near = [name for name in self.kind if name.startswith(written)]
        if not near:
            raise UsageError(f"{self.command}: unrecognized option '{word}'")
        first = self.alias.get(written, self.alias[near[0]])
        others = [name for name in near[1:] if self.alias[name] != first]
        if written in self.kind or not others:
            return first
        listed = " ".join(f"'--{name}'" for name in [near[0], *others])
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


class Failure(Exception):
    """End the command. Each line goes to stderr after `<command>: error: ` (or `fatal`)."""

    def __init__(self, *lines: str, code: int = 1, fatal: bool = False) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.code = code
        self.kind = "fatal" if fatal else "error"


# Advice for refused options and commands, unless the advice is to leave them out.
INSTEAD = {
    "--Format": "Choose columns with --format (-o).",
    "--bcast": "Leave it out, because all nodes of the box see the same files.",
    "--cron": "Submit with --begin.",
    "--het-group": "Submit the parts as jobs of their own.",
    "--iterate": "`watch` repeats a command.",
    "--json": "Choose columns with --format (-o), and read the columns.",
    "--long": "Choose columns with --format (-o).",
    "--multi-prog": "Start one script that chooses its work by SLURM_PROCID.",
    "--steps": "`sacct -j <job id>` lists the steps of a job. `sstat -j <job id>` shows their use.",
    "--yaml": "Choose columns with --format (-o), and read the columns.",
    "sacctmgr": "`sacct` lists past jobs. Every job of the box belongs to your account.",
    "sattach": "`tail -f slurm-<job id>.out` follows what a job prints.",
    "sbcast": "Use `cp`, because all nodes of the box see the same files.",
    "scontrol resume": "`scancel --signal=CONT` continues the steps of a job.",
    "scontrol show partition": "`sinfo -s` lists the partitions with their time limits.",
    "scontrol suspend": "`scancel --signal=STOP` stops the steps of a job.",
    "scontrol update": "Cancel the job, and submit it again with other options.",
    "scrontab": "Submit with `sbatch --begin=…`. The script can submit itself again.",
    "sprio": "Jobs start first come, first served.",
    "sreport": "`sacct -S <day> -X -o jobid,user,elapsed,alloccpus` lists the time of each job.",
    "sshare": "The box serves one account, so it has no shares.",
    "strigger": "`sbatch --dependency=afterany:<job id>` starts a job after another job.",
}


class Unsupported(Failure):
    """A feature that the box refuses by name. `known` lists what the box has instead."""

    def __init__(self, what: str, instead: str = "", known: Iterable[str] = ()) -> None:
        advice = instead or INSTEAD.get(what, "Leave it out here.")
        rest = f"it supports {', '.join(known)}" if known else f"a real Slurm does. {advice}"
        super().__init__(f"the box does not support {what}; {rest}")
