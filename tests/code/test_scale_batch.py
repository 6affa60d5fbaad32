"""The same samples in batches of any size, and gradient lengths that measure the noise."""

from __future__ import annotations

import argparse as a_file_of_python
import contextlib
import io
import re

import pytest
import torch

TEXT = a_file_of_python.__file__
SMALL = ("--text", TEXT, "--samples", "512", "--batch-size", "64", "--width", "16", "--lines", "4")


def printed(*argv):
    from scale_batch import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main(list(argv))
    return out.getvalue()


def told(worlds, ranks, *more):
    """The columns of rank 0's lines."""
    lines = worlds(ranks).run(printed, *SMALL, *more)[0]
    names = ("consumed samples", "learning rate", "lm loss", "validation loss",
             "small gradient squared", "large gradient squared", "copies differ by")  # fmt: skip
    return {
        name: [float(value) for value in re.findall(rf"{name}: +([-+.\dE]+)", lines)]
        for name in names
    }


def test_what_is_learned_does_not_depend_on_ranks_or_micro_batches(worlds):
    one = told(worlds, 1)
    assert one["consumed samples"] == [128, 256, 384, 512]
    for ranks, more in (
        (1, ("--micro-batch-size", "8")),
        (2, ()),
        (2, ("--micro-batch-size", "16")),
    ):
        other = told(worlds, ranks, *more)
        for name in ("lm loss", "validation loss", "large gradient squared"):
            assert other[name] == pytest.approx(one[name], rel=1e-4), (ranks, more)
        assert max(other["copies differ by"]) == 0


def test_without_the_broadcast_copies_stay_apart(worlds):
    assert min(told(worlds, 2, "--no-broadcast")["copies differ by"]) > 0.01


def test_seeds_at_once_learn_as_each_of_them_alone(worlds):
    names = ("lm loss", "small gradient squared", "large gradient squared", "validation loss")
    more = ("--micro-batch-size", "16")
    alone = [told(worlds, 2, *more, "--seed", str(seed)) for seed in (1, 2, 3)]
    lines = worlds(2).run(printed, *SMALL, *more, "--seeds", "3")[0]
    together = told(worlds, 2, *more, "--seeds", "3")
    for name in names:
        mean = [sum(values) / 3 for values in zip(*(one[name] for one in alone), strict=True)]
        assert together[name] == pytest.approx(mean, rel=1e-4), name
    for seed, one in enumerate(alone, start=1):
        told_of_it = re.findall(rf"validation loss of seed {seed}: +([-+.\dE]+)", lines)
        assert [float(value) for value in told_of_it] == pytest.approx(
            one["validation loss"], rel=1e-4
        )


def lengths_off():
    """Return how far a step's lengths and gradient are from plain calculations."""
    from scale_batch import gradient_of, step

    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    x, y = torch.randn(1, 8, 3), torch.randint(2, (1, 8))
    _, small, large = step(model, x, y, 2).tolist()
    parts = [
        gradient_of(model, *part)[1] for part in zip(x.split(2, 1), y.split(2, 1), strict=True)
    ]
    whole = gradient_of(model, x, y)[1]
    left = torch.cat([p.grad.flatten() for p in model.parameters()])
    small_off = small - sum(float(part.square().sum()) for part in parts) / 4
    return small_off, large - float(whole.square().sum()), float((left - whole).norm())


def test_a_micro_batch_has_the_length_of_its_own_gradient_and_the_batch_that_of_their_mean(worlds):
    assert max(map(abs, worlds(1).run(lengths_off)[0])) < 1e-5


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            ("--micro-batch-size", "7"),
            "--batch-size 64 is not a multiple of 1 ranks",
        ),
        (("--optimizer", "sgd", "--lr", "16", "--batch-size", "16", "--width", "64"), "Lower --lr"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(worlds, more, words):
    assert words in worlds(1).run(refusal, more)[0]


def refusal(more):
    from process.errors import AskedError

    try:
        printed(*SMALL, *more)
    except AskedError as error:
        return str(error)
    return ""


def speeds():
    from share_process import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main(["--rounds", "2", "--seconds", "0.05"])
    return out.getvalue()


def test_two_workers_are_measured_as_threads_and_as_processes(worlds):
    said = worlds(2).run(speeds)[0]
    assert len(re.findall(r"one worker: [\d.]+ \| threads: [\d.]+ \| processes: [\d.]+", said)) == 2
