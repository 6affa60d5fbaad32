"""Questions that one rank or all ranks answer, with one answer for everyone.

An error of one rank is raised on all of them: a rank that went on alone would wait for ever in the
next collective.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch.distributed as dist

from process.errors import AskedError

T = TypeVar("T")
# Another group of all ranks, for who speaks beside the others; None is the common one.
Group = dist.ProcessGroup | None


def from_first(question: Callable[[], T], group: Group = None) -> T:
    """Gives every rank the answer of rank 0."""
    answers: list[Any] = [_answer(question) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(answers, src=0, group=group)
    return cast(T, _result(answers[0]))


def from_all(question: Callable[[], T], group: Group = None) -> list[T]:
    """Gives every rank the answers of all, by rank."""
    answers: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(answers, _answer(question), group=group)
    return [_result(answer, rank) for rank, answer in enumerate(answers)]


def _answer(question: Callable[[], T]) -> T | Exception:
    try:
        return question()
    except (OSError, AskedError) as error:
        return error


def _result(answer: T | Exception, rank: int = 0) -> T:
    if isinstance(answer, Exception):
        answer.__dict__["rank"] = rank
        raise answer
    return answer


def by_rank(error: Exception) -> str:
    """The error, and whose it is."""
    return f"rank {error.__dict__.get('rank', 0)}: {error}"
