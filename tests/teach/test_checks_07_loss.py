"""Lesson 07: the cross entropy of logits that are divided over real ranks."""

from __future__ import annotations

import pytest

from course_lib.teach.checks import lesson07

from .finished_runs import hint_of, tried_with_swaps
from .own_trials import program_of

OWN = program_of("07_tensor_parallelism", "ex3-own")
tried = tried_with_swaps(OWN, "vocabulary")
MAX = "        dist.all_reduce(largest, dist.ReduceOp.MAX)\n"
SUM = "        dist.all_reduce(total)\n"
TARGET = "        dist.all_reduce(wanted)\n"
LOSS = "largest + total.log() - wanted"
ONE = "scatter_add(1, column, -one)"
GATHERED = (
    "        boxes = [torch.empty_like(logits) for _ in range(dist.get_world_size())]\n"
    "        dist.all_gather(boxes, logits.contiguous())\n"
    "        largest = torch.cat(boxes, 1).amax(1)\n"
)
BY_GATHERS = """import torch
import torch.distributed as dist


def of_all(one):
    boxes = [torch.empty_like(one) for _ in range(dist.get_world_size())]
    dist.all_gather(boxes, one)
    return torch.stack(boxes)


class VocabularyLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets):
        log_sum = of_all(logits.logsumexp(1)).logsumexp(0)
        first = dist.get_rank() * logits.shape[1]
        ctx.hot = targets[:, None] == first + torch.arange(logits.shape[1])
        ctx.save_for_backward(logits, log_sum)
        return log_sum - of_all((logits * ctx.hot).sum(1)).sum(0)

    @staticmethod
    def backward(ctx, grad):
        logits, log_sum = ctx.saved_tensors
        return grad[:, None] * ((logits - log_sum[:, None]).exp() - 1.0 * ctx.hot), None
"""


def test_a_right_loss_passes(tried, capsys):
    lesson07.ex07_loss(tried())
    assert "three numbers are exchanged" in capsys.readouterr().out


def test_a_loss_by_gathers_of_one_number_passes(tried):
    lesson07.ex07_loss(tried((OWN, BY_GATHERS)))


@pytest.mark.parametrize(
    ("swaps", "hint"),
    [
        ([(MAX, "")], "each rank subtracts its own largest logit"),
        ([(SUM, "")], "each rank has its own sum"),
        ([(TARGET, "")], "a target on another rank counts as 0"),
        ([(" * is_here", "")], "ranks without the target add 0"),
        ([("targets - dist.get_rank() * columns", "targets % columns")], "m + ln s − t"),
        ([(LOSS, "total.log() - wanted")], "m + ln s − t"),
        ([(LOSS, f"({LOSS}).mean()")], "the result has the shape [] and should have [24]"),
        ([(LOSS, "None")], "is None"),
        ([("(logits - largest[:, None]).exp()", "logits.exp()")], "an exponential overflows"),
        ([(MAX, GATHERED)], "exchanged for each token, of which a rank has 40 logits"),
        ([(f".{ONE}", "")], "minus 1 in the column of the target"),
        ([(" * grad[:, None], None", ", None")], "times grad"),
        ([("-one)", "-one * 0 - 1)")], "minus 1 in the column of the target"),
        ([("powers / total", "powers / powers.sum(1)")], "which add up to 1 over all ranks"),
        ([("-one)", "-2 * one)")], "minus 1 in the column of the target"),
    ],
)
def test_mistakes_are_named(tried, swaps, hint):
    assert hint in hint_of(lesson07.ex07_loss, tried(*swaps))
