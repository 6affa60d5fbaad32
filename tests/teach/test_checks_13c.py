"""Lesson 13c: experts over four real ranks, and the bias that balances them."""

from __future__ import annotations

import numpy as np
import pytest

from course_lib.teach.checks import lesson13c

from .finished_runs import hint_of, tried_with_swaps
from .own_trials import program_of

EXPERTS = program_of("13c_experts", "experts-own")
tried = tried_with_swaps(EXPERTS, "experts")


BACKWARD = "return AllToAll.apply(grad, ctx.received, ctx.sent), None, None"
PLAIN_BACKWARD = """back = grad.new_empty(sum(ctx.sent), grad.shape[1])
        dist.all_to_all_single(back, grad.contiguous(), ctx.sent, ctx.received)
        return back, None, None"""
RESTORED = "        results[order] = AllToAll.apply(computed, received, sent)\n"
INVERSE = "        results = AllToAll.apply(computed, received, sent)[order.argsort()]\n"
EXPERT = "expert = torch.arange(self.here).repeat(self.size).repeat_interleave(coming.flatten())"
LISTED = """expert = torch.tensor(
            [e for row in coming.tolist() for e, count in enumerate(row) for _ in range(count)]
        )"""
ONE_BY_ONE = """computed = torch.stack(
            [self.expert(e, row) for e, row in zip(expert.tolist(), arrived)]
        ) if len(arrived) else arrived
"""
LOOP = """computed = torch.zeros_like(arrived)
        for number in range(self.here):
            computed[expert == number] = self.expert(number, arrived[expert == number])
"""
SUM = "dist.all_reduce(self.router.grad)"


@pytest.mark.parametrize(
    "pairs",
    [
        [], [(BACKWARD, PLAIN_BACKWARD)], [(RESTORED, INVERSE)], [(EXPERT, LISTED)],
        [(LOOP, ONE_BY_ONE)],
    ],
)  # fmt: skip
def test_right_ones_pass(tried, capsys, pairs):
    lesson13c.ex13c_experts(tried(*pairs))
    assert "equal to the serial result on 1, 2, 3 and 4 ranks" in capsys.readouterr().out


WEIGHTED = "(weights[:, :, None] * results"
WRONG = {
    "not restored": ([(RESTORED, RESTORED.replace("results[order]", "results"))],
                     "Write row n of them to row order[n]"),
    "restored twice": ([(RESTORED, RESTORED.replace("results[order] = ", "results[:] = ")
                         + "        results = results[order]\n")],
                       "sorted once more"),
    "no weights": ([(WEIGHTED, "(results")], "multiply each result by its own"),
    "weights not divided": ([("weights / weights.sum(1, keepdim=True)", "weights * 1")],
                            "Divide the chosen scores by their sum"),
    "by sender": ([(".repeat(self.size).repeat_interleave(coming.flatten())",
                    ".repeat_interleave(coming.sum(0))")], "sorted by sender"),
    "no way back": ([("AllToAll.apply(copies[order], sent, received)",
                      "AllToAll.apply(copies[order].detach(), sent, received)")],
                    "return by AllToAll.backward"),
    "same direction": ([(BACKWARD, BACKWARD.replace("ctx.received, ctx.sent",
                                                    "ctx.sent, ctx.received"))],
                       "swap the numbers of sent and received rows"),
    "router not summed": ([(SUM, "pass")], "finish must add up the gradients of all ranks"),
    "experts summed": ([(SUM, SUM + "\n        dist.all_reduce(self.up.grad)")],
                       "gradients of different experts were added up"),
}  # fmt: skip


@pytest.mark.many(3)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_mixture_is_told_its_mistake(tried, name):
    pairs, words = WRONG[name]
    assert words in hint_of(lesson13c.ex13c_experts, tried(*pairs))


def by_sign(bias, tokens, rate):
    mean = sum(tokens) / len(tokens)
    return [old + rate * np.sign(mean - count) for old, count in zip(bias, tokens, strict=True)]


def by_cases(bias, tokens, rate):
    mean, moved = sum(tokens) / len(tokens), list(bias)
    for expert, count in enumerate(tokens):
        if count > mean:
            moved[expert] -= rate
        elif count < mean:
            moved[expert] += rate
    return tuple(moved)


def with_two_cases(bias, tokens, rate):
    busy = [count * len(tokens) > sum(tokens) for count in tokens]
    return [old - rate if more else old + rate for old, more in zip(bias, busy, strict=True)]


@pytest.mark.parametrize("right", [by_sign, by_cases])
def test_a_bias_that_balances_passes(workspace, capsys, right):
    lesson13c.ex13c_bias(right)
    assert "each of 4 biases moves by the rate" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (..., "Replace the ..."),
        (lambda bias, tokens, rate: ..., "Is a gap still open"),
        (lambda bias, tokens, rate: bias[0], "become 0.5. They should become 0.25, 0.25"),
        (lambda bias, tokens, rate: bias, "become 0.5, 0, -0.5, 0. They should"),
        (lambda bias, tokens, rate: by_sign(bias, tokens, -rate), "become 0.75, -0.25, -0.5"),
        (lambda bias, tokens, rate: by_sign([0] * len(bias), tokens, rate), "become -0.25, 0.25"),
        (lambda bias, tokens, rate: np.array(bias) + rate * (1 - np.array(tokens) / 5),
         "become 0.25, 0.15"),
        (with_two_cases, "an expert with the mean keeps its bias"),
    ],
)  # fmt: skip
def test_a_bias_that_does_not_balance_is_told_why(workspace, function, words):
    assert words in hint_of(lesson13c.ex13c_bias, function)
