"""Lesson 11: a learner's clipping of gradients of which each real rank has a part."""

from __future__ import annotations

import pytest

from course_lib.teach.checks import lesson11

from .finished_runs import hint_of, tried_with_swaps
from .own_trials import program_of

OWN = program_of("11_sharded_data_parallelism", "clip-file")
tried = tried_with_swaps(OWN, "clip")
SUM = "    dist.all_reduce(total)\n"
ONCE = "(total + sum(p.grad.square().sum() for p in replicated)).sqrt()"
LOOKS = "if norm.isfinite() and norm > max_norm:"
SCALES = "p.grad.mul_(max_norm / norm)"
IN_ONE_ROW = """import math

import torch
import torch.distributed as dist


def clip(sharded, replicated, max_norm):
    flat = [torch.cat([p.grad.flatten() for p in some]) for some in (sharded, replicated)]
    mine = flat[0] @ flat[0] + flat[1] @ flat[1] / dist.get_world_size()
    norms = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(norms, mine)
    norm = math.sqrt(sum(map(float, norms)))
    factor = max_norm / norm if max_norm < norm < math.inf else 1
    for p in sharded + replicated:
        p.grad = p.grad * factor
    return norm
"""
WITH_TORCHS_NORM = """import torch
import torch.distributed as dist
from torch.nn.utils import get_total_norm


@torch.no_grad()
def clip(sharded, replicated, max_norm):
    both = [get_total_norm([p.grad for p in some]) for some in (sharded, replicated)]
    square = both[0] ** 2
    work = dist.all_reduce(square, async_op=True)
    work.wait()
    norm = torch.hypot(square.sqrt(), both[1])
    if not torch.isfinite(norm):
        return norm
    factor = (max_norm / norm).clamp(max=1.0)
    for p in [*sharded, *replicated]:
        p.grad.copy_(p.grad * factor)
    return norm
"""


def test_a_right_clip_passes(tried, capsys):
    lesson11.ex11_clip(tried())
    assert "norm and gradients equal those of the whole model" in capsys.readouterr().out


@pytest.mark.parametrize("text", [IN_ONE_ROW, WITH_TORCHS_NORM])
def test_so_does_one_in_another_style(tried, text):
    lesson11.ex11_clip(tried((OWN, text)))


@pytest.mark.parametrize(
    ("swaps", "hint"),
    [
        ([(SUM, "")], "the result is only the norm of this rank's part"),
        ([("for p in sharded)", "for p in (*sharded, *replicated))"), (ONCE, "total.sqrt()")],
         "the norm counts the replicated gradients 2 times"),
        ([(ONCE, "total.sqrt()")], "the squares of the replicated gradients to"),
        ([("in sharded)\n", "in sharded).sqrt()\n"), ("(total + ", "(total.square() + ")],
         "Add up squares, and take the square root last"),
        ([(SUM, f"{SUM}    total /= dist.get_world_size()\n")], "The squares of all shards add up"),
        ([(".sqrt()", "")], "take the square root last"),
        ([(SCALES, "p.grad * max_norm / norm")], "Change p.grad itself"),
        ([("(*sharded, *replicated)", "sharded")], "Both lists need the same factor"),
        ([(LOOKS, "if norm.isfinite():")], "it is at most 1"),
        ([(LOOKS, "if norm > max_norm:")], "a finite number divided by an infinite norm is 0"),
        ([(LOOKS, "if not norm <= max_norm:")], "a finite number divided by an infinite norm is 0"),
        ([(LOOKS, "if norm == norm and norm > max_norm:")], "divided by an infinite norm is 0"),
        ([("return norm", "return norm.nan_to_num(0, 0)")], "on this rank does not show it"),
        ([(SUM, f"{SUM}    dist.barrier()\n")], "2 collectives exchange 1 numbers"),
        ([("    return norm", "    return min(norm, max_norm)")], "Return the norm before it"),
        ([("    return norm", "")], "is None"),
    ],
)  # fmt: skip
def test_mistakes_are_named(tried, swaps, hint):
    assert hint in hint_of(lesson11.ex11_clip, tried(*swaps))
