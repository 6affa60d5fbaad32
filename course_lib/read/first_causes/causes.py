"""Causes of failures with their meanings and remedies, and the failure that was found."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_lib.read.messages import _
from course_lib.read.prefix import visible

_TABLE = tomllib.loads(Path(__file__).with_name("causes.toml").read_text(encoding="utf-8"))
WORDS: list[str] = _TABLE.pop("words")
TEXTS: dict[str, dict[str, Any]] = _TABLE
LONGEST = 300


@dataclass(frozen=True)
class Failure:
    """First failure of a run. `line` counts from 1; `consequences` are further reports."""

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
        """Return a failure with the texts of its cause."""
        texts: dict[str, Any] = {
            name: _(TEXTS[cause][name]) for name in ("title", "meaning", "remedy")
        }
        return Failure(cause=cause, **texts, **found)

    def __str__(self) -> str:
        who = _(" on rank {rank}", rank=self.rank) if self.rank is not None else ""
        who += f" ({self.node})" if self.node else ""
        others = [rank for rank in self.ranks if rank != self.rank]
        odd = self.details.get("odd_rank")
        who += (
            _("; among the compared ranks, rank {odd} differs", odd=odd) if odd is not None else ""
        )
        also = _("\n  Also on ranks {ranks}.", ranks=_first_ranks(others)) if others else ""
        also = _("\n  Also on rank {rank}.", rank=others[0]) if len(others) == 1 else also
        return _(
            "{upper}{title}{who}.\n  {file}, line {line}: {beginning}{also}\n  "
            "{meaning}\n  Try: {remedy}",
            upper=self.title[:1].upper(),
            title=self.title[1:],
            who=who,
            file=self.file,
            line=self.line,
            beginning=_beginning(visible(self.evidence)),
            also=also,
            meaning=self.meaning,
            remedy=self.remedy,
        )


def _beginning(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rsplit(maxsplit=1)[0]} …"


def _first_ranks(ranks: Sequence[int]) -> str:
    text = ", ".join(map(str, ranks[:12]))
    return (
        _("{ranks} and {others} more", ranks=text, others=len(ranks) - 12)
        if len(ranks) > 12
        else text
    )
