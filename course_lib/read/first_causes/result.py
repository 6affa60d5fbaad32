"""What `read.failure` finds; see `reader.py` for how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from course_lib.read.first_causes.advice.texts import TEXTS

LONGEST = 300


@dataclass(frozen=True)
class Failure:
    """`line` counts from 1 in `file`; `consequences` are other things that the logs report."""

    cause: str
    title: str
    rank: int | None
    ranks: tuple[int, ...]
    node: str | None
    meaning: str
    remedy: str
    file: str
    line: int
    evidence: str
    details: dict[str, Any] = field(default_factory=dict)
    consequences: tuple[str, ...] = ()

    @staticmethod
    def of(cause: str, **found: Any) -> Failure:
        """With the texts that belong to the cause."""
        title, meaning, remedy = TEXTS[cause]
        return Failure(cause=cause, title=title, meaning=meaning, remedy=remedy, **found)

    def __str__(self) -> str:
        who = f" on rank {self.rank}" if self.rank is not None else ""
        who += f" ({self.node})" if self.node else ""
        others = [rank for rank in self.ranks if rank != self.rank]
        odd = self.details.get("odd_rank")
        who += f"; of the ranks compared, {odd} is the odd one" if odd is not None else ""
        also = f"\n  Also on ranks {_first_ranks(others)}." if others else ""
        also = f"\n  Also on rank {others[0]}." if len(others) == 1 else also
        return (
            f"{self.title[:1].upper()}{self.title[1:]}{who}.\n"
            f"  {self.file}, line {self.line}: {_beginning(self.evidence)}{also}\n"
            f"  {self.meaning}\n  Try: {self.remedy}"
        )


def _beginning(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rsplit(maxsplit=1)[0]} …"


def _first_ranks(ranks: Sequence[int]) -> str:
    text = ", ".join(map(str, ranks[:12]))
    return f"{text} and {len(ranks) - 12} more" if len(ranks) > 12 else text
