"""`read.stacks`: location of each rank of a run when its stacks were requested."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from course_lib.read.files import PathLike
from course_lib.read.messages import _

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "stacks"
LARGEST_BYTES = 8 << 20
_THREAD = re.compile(r"^(Current thread|Thread) (0x[0-9a-f]+)[^\n]*:$")
_FRAME = re.compile(r'^  File "([^"]{1,400})", line (\d{1,9}) in (\S{1,200})$')
_LIBRARY = re.compile(r"site-packages|dist-packages|/lib(?:64)?/python3|^<frozen|^<string>")
_COLLECTIVE = re.compile(r"distributed_c10d\.py$")


@dataclass(frozen=True)
class Frame:
    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line} in {self.function}"


@dataclass(frozen=True)
class Stack:
    """Main thread of one rank, innermost call first; without frames it did not answer."""

    rank: int
    node: str
    frames: tuple[Frame, ...]

    @property
    def answered(self) -> bool:
        return bool(self.frames)

    @property
    def collective(self) -> str:
        """Return the current call of torch.distributed, or ""."""
        found = [f.function for f in self.frames if _COLLECTIVE.search(f.file)]
        return found[-1] if found else ""

    @property
    def place(self) -> str:
        """Return the innermost line outside Python and libraries."""
        own = (frame for frame in self.frames if not _LIBRARY.search(frame.file))
        return str(next(own, self.frames[0] if self.frames else ""))


@dataclass(frozen=True)
class Stacks:
    ranks: tuple[Stack, ...]

    @property
    def table(self) -> pd.DataFrame:
        import pandas as pd

        rows = [(s.rank, s.node, s.collective, s.place) for s in self.ranks]
        return pd.DataFrame(rows, columns=["rank", "node", "collective", "place"])

    @property
    def odd(self) -> tuple[Stack, ...]:
        """Return the ranks away from the majority's place, or all if there is no majority."""
        places = [(stack.collective, stack.place) for stack in self.ranks]
        most = max(places, key=places.count, default=None)
        if most is None or 2 * places.count(most) <= len(places):
            return self.ranks
        return tuple(s for s, at in zip(self.ranks, places, strict=True) if at != most)

    @property
    def note(self) -> str:
        """Return the reason why these stacks do not show a hang, or ""."""
        if not self.ranks:
            return ""
        if not any(stack.answered for stack in self.ranks):
            return _("No rank has answered: no rank has started yet, or all have ended.")
        if any(stack.collective for stack in self.ranks):
            return ""
        return _(
            "No rank is in a collective, so the job makes progress. Ask again when its log stops."
        )

    def __str__(self) -> str:
        lines = [
            _(
                "rank {rank} ({node}): {value}{value2}",
                rank=s.rank,
                node=s.node,
                value=s.place or _("no answer"),
                value2=_(", within {collective}", collective=s.collective) if s.collective else "",
            )
            for s in self.ranks
        ]
        return "\n".join([*lines, *filter(None, [self.note])])

    def _repr_html_(self) -> str:
        table = str(self.table.style.hide(axis="index").to_html())
        return f"{table}<p>{self.note}</p>" if self.note else table

    def of(self, rank: int) -> str:
        """Return the whole stack of one rank, innermost call first."""
        return "\n".join(str(f) for s in self.ranks if s.rank == rank for f in s.frames)


def stacks(folder: PathLike) -> Stacks:
    """Read the last stacks of each rank from a run folder, or from its folder `stacks`."""
    given = Path(folder)
    inner = given / FOLDER if (given / FOLDER).is_dir() else given
    found = [_stack(file) for file in inner.glob("rank*.txt")]
    return Stacks(tuple(sorted((s for s in found if s), key=lambda stack: stack.rank)))


def _stack(file: Path) -> Stack | None:
    with file.open("rb") as opened:
        text = opened.read(LARGEST_BYTES).decode("utf-8", "replace")
    head, _unused, rest = text.partition("\n")
    try:
        who = json.loads(head)
        rank, node = int(who["rank"]), str(who["node"])
    except (ValueError, KeyError, TypeError):
        return None
    return Stack(rank, node, _main_thread(rest))


def _main_thread(text: str) -> tuple[Frame, ...]:
    """Return the last thread of the last dump: faulthandler writes the oldest thread last."""
    threads: list[list[Frame]] = []
    for line in text.splitlines():
        if _THREAD.match(line):
            threads.append([])
        elif threads and (found := _FRAME.match(line)):
            threads[-1].append(Frame(found[1], int(found[2]), found[3]))
    return tuple(threads[-1]) if threads else ()
