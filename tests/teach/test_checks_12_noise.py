"""Lesson 12: the noise of gradients, estimated from the gradients of several real ranks."""

from __future__ import annotations

import pytest

from course_lib.teach.checks import lesson12

from .finished_runs import hint_of, tried_with_swaps
from .own_trials import program_of

OWN = program_of("12_large_batches", "ex1-own")
tried = tried_with_swaps(OWN, "noise")
BODY = OWN[OWN.index("    ranks = dist") :]
GATHERED = """    n, b = dist.get_world_size(), samples
    every = [torch.empty_like(gradients) for _ in range(n)]
    dist.all_gather(every, gradients)
    every = torch.stack(every)
    short, long = every.pow(2).sum(-1).mean(0), every.mean(0).pow(2).sum(-1)
    noise = (short - long) * b * n / (n - 1)
    return [noise.mean().item(), (long - noise / (b * n)).mean().item(),
            noise.std().item() / len(noise) ** 0.5]
"""
STEP_BY_STEP = """    n, noises, trues = dist.get_world_size(), [], []
    for row in gradients:
        packed = torch.cat([row, row.dot(row)[None]])
        dist.all_reduce(packed)
        packed /= n
        small, large = packed[-1], packed[:-1].norm() ** 2
        noises.append((small - large) / (1 / samples - 1 / (n * samples)))
        trues.append((n * large - small) / (n - 1))
    noises = torch.stack(noises)
    error = torch.sqrt(noises.var() / len(noises))
    return noises.mean(), torch.stack(trues).mean(), error
"""
WITHIN_RANKS = """    n = dist.get_world_size()
    average = gradients.clone()
    dist.all_reduce(average, op=dist.ReduceOp.SUM)
    average = average / n
    spread = (gradients - average).square().sum(dim=1)
    dist.all_reduce(spread)
    noise = samples * spread / (n - 1)
    true = average.square().sum(dim=1) - noise / (n * samples)
    return noise.mean(), true.mean(), noise.std(correction=1) / noise.numel() ** 0.5
"""


@pytest.mark.parametrize("body", [BODY, GATHERED, STEP_BY_STEP, WITHIN_RANKS],
                         ids=["solution", "gathered", "step by step", "spread"])  # fmt: skip
def test_estimates_without_bias_pass(tried, capsys, body):
    lesson12.ex12_noise(tried((BODY, body)))
    assert "✓ the estimate is the plain one" in capsys.readouterr().out


RETURNS = "return noises.mean(), trues.mean(), error"
WRONG = {
    "own": ([("(small_squared, average)", "(average,)")], "only this rank's"),
    "no division": ([("one.div_(ranks)", "one.div_(1 if one.dim() == 2 else ranks)")],
                    "Divide it by their number"),
    "biased": (
        [("noises = (small_squared - large_squared) / (1 / samples - 1 / large_samples)",
          "noises = (small_squared - large_squared) * samples"),
         ("trues = (large_samples * large_squared - samples * small_squared)", "trues = ("),
         ("= ( / (large_samples - samples)", "= large_squared")], "is biased"),
    "true one biased": ([("trues.mean()", "large_squared.mean()")], "is biased"),
    "of one step": ([(" / len(noises) ** 0.5", "")], "by the square root of the number of steps"),
    "by the steps": ([("len(noises) ** 0.5", "len(noises)")],
                     "by the square root of the number of steps"),
    "the ratio": ([(RETURNS, "return noises.mean() / trues.mean(), trues.mean(), error")],
                  "already divided by |G|²"),
    "sum of the small": ([("one.div_(ranks)", "one.div_(1 if one.dim() == 1 else ranks)")],
                         "|g_b|² is a sum over the ranks"),
    "exchanged": ([(RETURNS, "return trues.mean(), noises.mean(), error")], "Print yours"),
    "mean first": ([("    ranks = dist", "    gradients = gradients.mean(0).expand_as(gradients)\n"
                     "    ranks = dist")], "the squares of each step before the mean"),
    "of the large batch": ([("large_squared = average.square()",
                             "large_squared = average.mean(0).expand_as(average).square()")],
                           "the squares of each step before the mean"),
    "without samples": ([("    large_samples", "    samples = 1\n    large_samples")],
                        "are 8 and 16 samples, not numbers of ranks"),
    "one number": ([(RETURNS, "return noises.mean() / trues.mean()")], "function returns Tensor"),
    "of the course": ([("import torch\n", "import torch\nimport trials.layers.noise\n")],
                      "uses trials.layers.noise."),
}  # fmt: skip


@pytest.mark.many(3)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_estimate_is_told_its_mistake(tried, name):
    pairs, words = WRONG[name]
    assert words in hint_of(lesson12.ex12_noise, tried(*pairs))
