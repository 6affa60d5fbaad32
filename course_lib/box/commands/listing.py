"""Tables of the listing commands: their fields, formats and times."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable

from course_lib.box.commands.command_line import Failure, Unsupported
from course_lib.box.settings import UNLIMITED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STANDARD = "%Y-%m-%dT%H:%M:%S"


def stamp(moment_s: float, absent: str = "N/A") -> str:
    """Format a time as 2026-11-20T09:31:00, or as SLURM_TIME_FORMAT says."""
    if moment_s <= 0:
        return absent
    form = os.environ.get("SLURM_TIME_FORMAT", "standard")
    form = STANDARD if form in ("standard", "relative", "") else form
    return time.strftime(form, time.localtime(int(moment_s)))


def short(seconds: float) -> str:
    """Format a duration as squeue does: 0:03, 59:57, 1:00:00, 1-00:00:00."""
    total = int(seconds)
    if total < 0:
        return "INVALID"
    days, hours, minutes, secs = parts(total)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{secs:02}"
    if hours:
        return f"{hours}:{minutes:02}:{secs:02}"
    return f"{minutes}:{secs:02}"


def full(seconds: float) -> str:
    """Format a duration as scontrol and sacct do: 00:00:03, 1-00:00:00."""
    days, hours, minutes, secs = parts(max(int(seconds), 0))
    head = f"{days}-" if days else ""
    return f"{head}{hours:02}:{minutes:02}:{secs:02}"


def parts(total: int) -> tuple[int, int, int, int]:
    days, rest = divmod(total, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, secs = divmod(rest, 60)
    return days, hours, minutes, secs


def limit_short(minutes: int) -> str:
    return "UNLIMITED" if minutes == UNLIMITED else short(minutes * 60)


def limit_full(minutes: int) -> str:
    return "UNLIMITED" if minutes == UNLIMITED else full(minutes * 60)


def now_line() -> str:
    return time.strftime("%a %b %d %H:%M:%S %Y")


class Column:
    """A field in a format: the text before it, its name, width and alignment."""

    def __init__(self, before: str, name: str, width: int, right: bool) -> None:
        self.before, self.name, self.width, self.right = before, name, width, right

    def lay_out(self, text: str) -> str:
        cut = text[: self.width] if self.width else text
        return self.before + (cut.rjust(self.width) if self.right else cut.ljust(self.width))


class Fields:
    """Fields of squeue or sinfo: name, letter for -o, heading and content."""

    def __init__(
        self, command: str, rows: Iterable[tuple[str, str, str, Callable[[Any], str]]]
    ) -> None:
        self.command = command
        self.heading: dict[str, str] = {}
        self.content: dict[str, Callable[[Any], str]] = {}
        self.name_of_letter: dict[str, str] = {}
        for name, letter, heading, content in rows:
            self.heading[name], self.content[name] = heading, content
            self.name_of_letter[letter] = name

    def known(self, word: str, names: Iterable[str]) -> None:
        if word not in names:
            raise Unsupported(f"the field {word} of {self.command}", known=names)

    def columns(self, format: str) -> tuple[list[Column], str]:
        """Read a format such as `%.18i %P…`. Return the columns and the text after them."""
        before, *tokens = format.split("%")
        found = []
        for token in tokens:
            right = token.startswith(".")
            rest = token.removeprefix(".")
            letter = rest.lstrip("0123456789")
            if not letter:
                continue
            self.known("all" if letter[:3] == "all" else letter[0], self.name_of_letter)
            width = int(rest[: len(rest) - len(letter)] or 0)
            found.append(Column(before, self.name_of_letter[letter[0]], width, right))
            before = letter[1:]
        return found, before

    def print(self, layout: tuple[list[Column], str], views: Iterable[Any], header: bool) -> None:
        """Print the header, if wanted, and one line per view."""
        columns, end = layout
        lines = []
        if header:
            lines.append("".join(column.lay_out(self.heading[column.name]) for column in columns))
        pairs = [(column.lay_out, self.content[column.name]) for column in columns]
        for view in views:
            lines.append("".join([lay_out(content(view)) for lay_out, content in pairs]))
        sys.stdout.write("".join(f"{line}{end}\n" for line in lines))


def accounting_fields(command: str, text: str, widths: dict[str, int]) -> list[tuple[str, int]]:
    """Return the fields of sacct or sstat with their widths. Names may be abbreviated."""
    lower = {name.lower(): name for name in widths}
    found = []
    for item in filter(None, text.split(",")):
        asked, _, width = item.lstrip().partition("%")
        near = [name for name in lower if name.startswith(asked.lower())]
        if not near:
            raise Unsupported(f"the field {asked} of {command}", known=widths)
        if width and not width.removeprefix("-").isdecimal():
            raise Failure(f'Invalid field requested: "{asked}"')
        name = lower.get(asked.lower()) or lower[near[0]]
        found.append((name, int(width) if width else widths[name]))
    last = dict(found)  # if a field is given twice, the last width counts for both, as in Slurm
    return [(name, last[name]) for name, _ in found]


def print_accounting(
    fields: list[tuple[str, int]],
    rows: Iterable[list[str]],
    options: dict[str, str],
    header: bool = True,
) -> None:
    """Print a table as sacct and sstat do."""
    out = []
    if {"parsable", "parsable2"} & options.keys():
        mark = options.get("delimiter", "|")
        end = mark if "parsable" in options else ""
        names = [[name for name, _ in fields]] if header else []
        out = [mark.join(cells) + end for cells in (*names, *rows)]
    else:
        if header:
            out.append("".join(_padded(name, width, cut="") + " " for name, width in fields))
            out.append("".join("-" * abs(width) + " " for _, width in fields))
        for cells in rows:
            pairs = zip(cells, fields, strict=True)
            out.append("".join(_padded(cell, width) + " " for cell, (_, width) in pairs))
    sys.stdout.write("".join(line + "\n" for line in out))


def _padded(text: str, width: int, cut: str = "+") -> str:
    """Align a text. A text that is too long ends in `+`; a header is cut without `+`."""
    size = abs(width)
    if not size:
        return text
    if len(text) > size:
        text = text[: size - len(cut)] + cut
    return text.ljust(size) if width < 0 else text.rjust(size)
