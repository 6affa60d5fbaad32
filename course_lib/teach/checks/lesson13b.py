"""Lesson 13b, long sequences over ranks."""

from __future__ import annotations

from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.orders import pieces
from course_lib.teach.trials import layers


def ex13b_pieces(function: Any) -> None:
    """Positions of a causal sequence, so that all ranks have the same work."""
    with Checklist("13b.1") as check:
        pieces.are_right(check, function)


def ex13b_context(run: Any) -> None:
    """Attention over a sequence that is cut, and the gradients of its weights."""
    with Checklist("13b.2") as check:
        trial = layers.equal_to_serial(check, run, "context", layers.CONTEXT)
        sent = layers.calls_in(trial, "forward")
        check.that(
            len(sent) <= 3,
            "keys and values travel, queries do not",
            hint=f"Forward calls {', '.join(sent)}. Queries stay where they are: gather keys and "
            "values, and the positions they belong to.",
        )
