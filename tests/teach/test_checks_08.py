"""Lesson 08: each wrong answer is met by the hint for that mistake."""

from __future__ import annotations

import pytest

from course_lib.teach.checks import lesson08

from .answers_to_try import hold
from .finished_runs import hint_of, tried_with_swaps
from .own_trials import program_of

OWN = program_of("08_mixed_precision", "ex1-own")
tried = tried_with_swaps(OWN, "scaler")


def test_the_scale_holds_against_all_kinds_of_answers(lab):
    wrong = {
        2**23: "Go backwards from 8,388,608", 2**33: "not every skipped step halves",
        2**28: "only the first overflow keeps", 32: "That is the exponent",
        2**14: "Go backwards", 5e8: "You answered 500,000,000",
    }  # fmt: skip
    hold("started_at", lesson08.ex08_started_at, 2**32, wrong, accepted=[4.29e9])


SEEN = "any(not one.isfinite().all() for one in gradients)"
TO_ALL = "        dist.all_reduce(overflow, dist.ReduceOp.MAX)\n"
RESET, HALVED = "            self.good = 0\n", "            if self.patience <= 0:\n    "
GROWN = "self.good, self.patience = 0, self.hysteresis\n"
DIVIDED = "        for one in gradients:\n            one.div_(self.scale)\n"
FLAG = "torch.tensor(any(not one.isfinite().all() for one in gradients), dtype=torch.int)"
BY_NORM = """import math

import torch
import torch.distributed as dist


class Scaler:
    def __init__(self, optimizer, scale, window, hysteresis):
        self.exponent, self.optimizer = math.log2(scale), optimizer
        self.rules = window, hysteresis
        self.until_growth, self.until_halving = self.rules

    @property
    def scale(self):
        return torch.tensor(2.0) ** self.exponent

    def scaled(self, loss):
        return self.scale * loss

    @torch.no_grad()
    def step(self):
        own = [p for group in self.optimizer.param_groups for p in group["params"]]
        own = [p for p in own if p.grad is not None]
        square = torch.zeros((), dtype=torch.float64)
        for p in own:
            p.grad = p.grad / self.scale
            square += p.grad.square().sum()
        dist.all_reduce(square)
        if math.isfinite(square):
            self.optimizer.step()
            self.until_growth -= 1
            if not self.until_growth:
                self.until_growth, self.until_halving = self.rules
                self.exponent += 1
        else:
            self.until_growth = self.rules[0]
            self.until_halving = max(self.until_halving - 1, 0)
            self.exponent -= self.until_halving == 0
"""
GATHERED = """overflow = torch.tensor(float(sum((one - one).sum() for one in gradients) != 0))
        every = [torch.zeros(()) for _ in range(dist.get_world_size())]
        dist.all_gather(every, overflow)
        overflow = max(every)
"""
RIGHT = {
    "the solution": [],
    "a norm": [(OWN, BY_NORM)],
    "gathered": [(f"overflow = {FLAG}\n{TO_ALL}", GATHERED)],
    "divided first": [(DIVIDED, ""), ("        overflow = ", f"{DIVIDED}        overflow = ")],
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_scalers_pass(tried, name, capsys):
    lesson08.ex08_scaler(tried(*RIGHT[name]))
    assert "✓ the weights equal the weights of the serial search" in capsys.readouterr().out


WRONG = {
    "alone": ([(TO_ALL, "")], "Let the ranks exchange whether a gradient overflows"),
    "infinite alone": ([(SEEN, "any(one.isinf().any() for one in gradients)")],
                       "a gradient is NaN"),
    "no hysteresis": ([(HALVED, "")], "only when that is 0"),
    "hysteresis once": ([(GROWN, "self.good = 0\n")], "A doubling sets both back"),
    "still counted": ([(RESET, "")], "an overflow sets the count back"),
    "doubled again": ([(GROWN, "self.patience = self.hysteresis\n"),
                       ("self.good == self.window", "self.good >= self.window")],
                      "A doubling sets both back"),
    "restored": ([(HALVED, HALVED[:-4] + "                self.patience = self.hysteresis\n    ")],
                 "A halving leaves it at 0"),
    "never doubled": ([("            self.scale *= 2\n", "")],
                      "should be"),
    "not divided": ([(DIVIDED, "")], "by the scale that multiplied the loss"),
    "zeros": ([(RESET, f"{RESET}            for one in gradients:\n                one.zero_()\n"
                       "            self.optimizer.step()\n")], "because of the momentum"),
    "made anyway": ([(RESET, RESET + "            self.optimizer.step()\n")],
                    "although a gradient"),
    "torch's own": ([("self.good, self.patience = 0, hysteresis",
                      "self.own = torch.amp.GradScaler('cpu')")],
                    "uses torch.amp.GradScaler"),
}  # fmt: skip


@pytest.mark.many(3)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_scaler_is_told_its_mistake(tried, name):
    pairs, words = WRONG[name]
    assert words in hint_of(lesson08.ex08_scaler, tried(*pairs))
