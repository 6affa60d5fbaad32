"""Lesson 10: each wrong answer is met by the hint for that mistake."""

from __future__ import annotations

import pytest

from course_lib.teach.checks import lesson10

from .finished_runs import hint_of, tried_with_swaps
from .own_trials import program_of

OWN = program_of("10_gradient_accumulation", "ex1-own")
tried = tried_with_swaps(OWN, "accumulate")
SYNC = "    with model.no_sync():\n        for pair in first:\n            backward(*pair)\n"
SCALED = "(summed * dist.get_world_size() / counted).backward()"
TO_ALL, OF_ALL = "    dist.all_reduce(counted)\n", "    dist.all_reduce(total)\n"
FIRST, LAST = "*first, last = micro_batches", "    backward(*last)\n"
HEAD, SUM = "import torch\nimport torch.dist", "    sum(todo).backward()\n"
EVERY = "    for pair in first:\n        backward(*pair)\n"
INSIDE = "        with model.no_sync() if quiet else nullcontext():\n            "
BY_FLAG = """import torch
import torch.distributed as dist


def accumulate(model, micro_batches):
    both, size = torch.zeros(2, dtype=torch.float64), dist.get_world_size()
    for number, (tokens, targets) in enumerate(micro_batches):
        model.require_backward_grad_sync = number == len(micro_batches) - 1
        logs, there = model(tokens).log_softmax(-1), targets != -100
        chosen = logs.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
        loss = -(chosen * there).sum()
        loss.backward()
        both += torch.stack([loss.detach(), there.sum()])
    dist.all_reduce(both)
    for parameter in model.parameters():
        parameter.grad *= size / both[1]
    return (both[0] / both[1]).item()
"""
BY_HAND = """import torch
import torch.distributed as dist
from torch.nn import functional


def accumulate(model, micro_batches):
    count = torch.cat([one[1].flatten() for one in micro_batches]).ge(0).sum()
    dist.all_reduce(count)
    loss = 0
    for tokens, targets in micro_batches:
        with model.no_sync():
            part = functional.cross_entropy(model(tokens).mT, targets, reduction="none").sum()
            part.backward(1 / count.double())
            loss = loss + part.detach() / count
    for parameter in model.module.parameters():
        dist.all_reduce(parameter.grad)
    dist.all_reduce(loss)
    return loss
"""
RIGHT = {
    "the solution": [],
    "one loop": [(SYNC, "    for n, pair in enumerate(micro_batches):\n"
                        "        with contextlib.ExitStack() as stack:\n"
                        "            if pair is not last:\n"
                        "                stack.enter_context(model.no_sync())\n"
                        "            backward(*pair)\n"),
                 (LAST, ""), (HEAD, f"import contextlib\n{HEAD}")],
    "divided afterwards": [(OWN, BY_FLAG)],
    "sent by hand": [(OWN, BY_HAND)],
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_right_accumulations_pass(tried, name, capsys):
    lesson10.ex10_accumulate(tried(*RIGHT[name]))
    assert "✓ the gradients are sent once for each step" in capsys.readouterr().out


MEANS = [(', reduction="sum"', ""), (SCALED, "(summed / len(micro_batches)).backward()")]
WRONG = {
    "mean of means": (MEANS, "a mean of the means of micro-batches"),
    "mean of nothing": ([(', reduction="sum"', ""),
                         (SCALED, SCALED.replace("d *", "d * (targets != -100).sum() *")),
                         ("(summed.detach())", "(summed.detach() * (targets != -100).sum())")],
                        "Sum up the losses"),
    "tokens of the rank": ([(TO_ALL, ""), ("* dist.get_world_size() ", "")],
                           "each rank divides by its own tokens"),
    "tokens of the rank alone": ([(TO_ALL, "")], "each rank divides by its own tokens"),
    "averaged by DDP": ([("* dist.get_world_size() ", "")], "because DDP averages"),
    "not divided": ([("* dist.get_world_size() / counted", "")], "not divided by the tokens"),
    "padding counts": ([("(targets != -100).sum()", "torch.tensor(targets.numel())")],
                       "Targets of -100 do not count"),
    "sent every time": ([(SYNC, EVERY)],
                        "were sent 3 times"),
    "backward alone": ([(SCALED, f"quiet = targets is not last[1]\n{INSIDE}{SCALED}"),
                        (SYNC, EVERY),
                        (HEAD, f"from contextlib import nullcontext\n{HEAD}")],
                       "run forward and backward of all micro-batches but the last"),
    "never sent": ([(LAST, f"    with model.no_sync():\n    {LAST}")],
                   "were sent 0 times"),
    "one backward": ([(SCALED, f"todo.append{SCALED[:-11]}"),
                      (FIRST, f"todo = []\n    {FIRST}"), (OF_ALL, SUM + OF_ALL)],
                     "wait for their backward pass at once"),
    "the loss of a rank": ([(OF_ALL, "")], "This sum needs an all-reduce of its own"),
    "no loss": ([("    return total / counted\n", "")], "the result is None"),
}  # fmt: skip


@pytest.mark.many(3)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_accumulation_is_told_its_mistake(tried, name):
    pairs, words = WRONG[name]
    assert words in hint_of(lesson10.ex10_accumulate, tried(*pairs))
