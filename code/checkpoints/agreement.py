"""Functions that run on one or all ranks and return the same result on every rank.

An error of one rank is raised on all ranks; otherwise the others would wait forever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch.distributed as dist

from process.errors import AskedError

T = TypeVar("T")
# Second group of all ranks for background work; None is the default group.
Group = dist.ProcessGroup | None


def from_first(question: Callable[[], T], group: Group = None) -> T:
    """Return the answer of rank 0 on every rank."""
    answers: list[Any] = [_answer(question) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(answers, src=0, group=group)
    return cast(T, _result(answers[0]))


def from_all(question: Callable[[], T], group: Group = None) -> list[T]:
    """Return the answers of all ranks on every rank, by rank."""
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
    """Return the error's text with its rank."""
    return f"rank {error.__dict__.get('rank', 0)}: {error}"
