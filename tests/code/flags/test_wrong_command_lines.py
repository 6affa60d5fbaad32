"""Wrong command lines with any flag are refused in words before anything starts."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from flags.arguments import parse_arguments
from flags.other_names import CURES
from flags.ranges import OneOf, Real, Several, Shares, Switch, Takes, Text, Whole
from flags.tables import GROUPS
from parallel.layout_checks import grid_from
from process.errors import ArgumentsError, AskedError

ROWS = [row for rows in GROUPS.values() for row in rows]
WORDS = ("-1", "0", "nan", "inf", "-inf", "1e30", "two\nlines", "", " ", "1.5", "9" * 40)
# Flags of numbers of which 0 is one; all others refuse it.
ZERO_MEANS = {
    "--min-lr": "the rate decays to nothing",
    "--lr-warmup-iters": "no warm-up",
    "--lr-warmup-fraction": "no warm-up",
    "--lr-warmup-init": "the first step changes nothing",
    "--weight-decay": "none",
    "--clip-grad": "no clipping",
    "--adam-beta1": "no memory",
    "--adam-beta2": "no memory",
    "--hidden-dropout": "none",
    "--attention-dropout": "none",
    "--moe-aux-loss-coeff": "no such loss",
    "--moe-router-bias-update-rate": "the bias stays",
    "--eval-iters": "no evaluation",
    "--seed": "a seed as any other",
    "--profile-ranks": "the first rank",
}
# Flags of which 1.5 is a value. Other fractions end at 1; numbers of things have none.
FRACTIONS = {
    "--init-method-std", "--lr", "--min-lr", "--lr-warmup-init", "--weight-decay", "--clip-grad",
    "--loss-scale",
    "--initial-loss-scale", "--min-loss-scale", "--loss-scale-window", "--exit-duration-in-mins",
    "--split", "--moe-aux-loss-coeff", "--moe-router-bias-update-rate",
}  # fmt: skip
# Shares are divided by their sum, so they may be as large as they like.
LARGE = {"--split"}


def takes_of(row):
    return row[1].of if isinstance(row[1], Several) else row[1]


VALUED = [(row[0], takes_of(row)) for row in ROWS if not isinstance(row[1], Switch)]
NUMERIC = [(flag, takes) for flag, takes in VALUED if isinstance(takes, Whole | Real | Shares)]
WRONG = [
    (flag, word)
    for flag, takes in NUMERIC
    for word in WORDS
    if not (word == "0" and flag in ZERO_MEANS)
    and not (word == "1.5" and flag in FRACTIONS)
    and not (word in ("1e30", "9" * 40) and flag in LARGE)
] + [
    (flag, word)
    for flag, takes in VALUED
    if isinstance(takes, OneOf | Text)
    for word in (("", " ", "something else") if isinstance(takes, OneOf) else ("", " "))
]


def refusal(words):
    with pytest.raises(AskedError) as error:
        grid_from(parse_arguments(words), 2)
    assert error.value.exit_code == 2
    return error.value.problems


def test_every_flag_has_a_range():
    assert all(isinstance(row[1], Takes) for row in ROWS)
    assert len(WRONG) > 500


@pytest.mark.parametrize("flag", sorted({flag for flag, _ in WRONG}))
def test_a_value_outside_its_range_is_refused_with_the_range(flag):
    for word in [word for name, word in WRONG if name == flag]:
        problems = refusal([f"{flag}={word}"])
        assert len(problems) == 1, problems
        assert problems[0].startswith(f"{flag} "), (word, problems)
        assert ": give " in problems[0]
        assert "\n" not in problems[0]


@pytest.mark.parametrize("flag", sorted(ZERO_MEANS))
def test_zero_is_accepted_if_it_has_a_meaning(flag):
    parse_arguments([f"{flag}=0"])


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("--recompute-num-layers -1 --recompute-granularity full", "--recompute-num-layers -1"),
        ("--recompute-num-layers 1", "need --recompute-granularity full"),
        ("--world-size 8", "a flag of the launcher"),
        ("--tokenizer-type NullTokenizer", "give --vocab-size"),
        ("--print-schedule", "unrecognized argument '--print-schedule'"),
        ("--lr", "expected one argument"),
        ("--fp16=1", "ignored explicit argument"),
        ("--tensor-model-parallel-size 3", "2 devices cannot be split"),
        ("--tensor-model-parallel-size 3", "choose --tensor-model-parallel-size and the other"),
        ("--rank-order tp-dp", "--rank-order 'tp-dp' must name each of"),
        (
            "--num-experts 2 --disable-bias-linear --moe-layer-freq [1]*3",
            "must have a 0 or 1 for each",
        ),
        ("--moe-layer-freq ([0]*1+[1]*1", "--moe-layer-freq ([0]*1+[1]*1: give"),
        ("--profile-ranks 0 2 7", "--profile-ranks 2 7: give ranks of this run, from 0 to 1"),
        ("--lr-warmup-init 2 --lr 1 --lr-warmup-iters 1", "--lr-warmup-init 2 is above --lr 1"),
        ("--profile-ranks 0,1", "for each, with spaces between them"),
        ("--mock-data=1", "it takes no value"),
    ],
)
def test_values_that_do_not_go_together_are_refused(flags, told):
    problems = refusal(flags.split())
    assert len(problems) == 1
    assert told in problems[0]


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("--LR 0.1", "write --lr"),
        ("—lr 0.1", "write --lr"),
        ("--micro_batch_size 2", "write --micro-batch-size"),
        ("--learning-rate 1e-4", "here it is --lr"),
        ("--nproc_per_node 2", "give it before the program's name"),
        ("--multi-latent-attention", "--group-query-attention also keeps fewer"),
        ("--ep 8", "here it is --expert-model-parallel-size"),
        ("--hiden-size 64", "nearest to --hiden-size: --hidden-size"),
        ("--bf16 true", "'true'; no flag before it takes it, so leave it out"),
        ("--gpus-per-colour 2", "this program has no such flag: leave it out"),
    ],
)
def test_an_unknown_flag_is_answered_once_with_what_was_meant(flags, told):
    [problem] = refusal(flags.split())
    assert told in problem


def test_what_is_told_of_other_programs_flags_is_true():
    """None of these flags belongs to the course, and the flags that the answers suggest exist."""
    known = {row[0] for row in ROWS}
    assert not {f"--{name}" for name in CURES} & known
    named = {word for cure in CURES.values() for word in re.findall(r"--[a-z][\w-]*", cure)}
    assert named <= known


def test_all_problems_are_told_at_once():
    problems = refusal(
        ["--lr", "nan", "--num-layers=0", "--fp16", "--bf16", "--colour", "red", "--split=x"]
    )
    begins = ("--num-layers 0", "--lr nan", "--split x", "unrecognized argument '--colour'",
              "choose one of")  # fmt: skip
    assert [p for begin in begins for p in problems if p.startswith(begin)] == problems


def test_the_layout_is_told_on_the_same_screen_as_the_flags():
    def screen(text):
        with pytest.raises(ArgumentsError) as error:
            parse_arguments(text.split(), 2)
        return error.value.problems

    words = "--lr 0 --tensor-model-parallel-size 3 --num-attention-heads -1 --fp16 --bf16"
    begins = ("--num-attention-heads -1", "--lr 0", "choose one of", "2 devices cannot")
    told = zip(screen(words), begins, strict=True)
    assert all(problem.startswith(begin) for problem, begin in told)
    told = screen("--pipeline-model-parallel-size 2 --num-layers 3 --clip-grad x")
    assert "must be a multiple of pipeline 2" in told[1]


def test_the_remark_on_a_default_is_left_out_if_the_value_is_wrong():
    assert len(refusal(["--hidden-size", "130", "--num-attention-heads", "-4"])) == 1


@pytest.mark.slow
@pytest.mark.parametrize("flags", ["--num-layers 0 --lr nan", "--tensor-model-parallel-size 3"])
def test_the_program_ends_with_2_and_without_a_traceback(repository, flags):
    environment = {name: value for name, value in os.environ.items() if name != "RANK"}
    done = subprocess.run(
        [sys.executable, str(repository / "code" / "pretrain_gpt.py"), *flags.split()],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == len(flags.split()) // 2
    assert all(line.startswith("pretrain_gpt.py: error: ") for line in lines)
