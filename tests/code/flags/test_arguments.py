"""Flags: current names, older spellings with a note, and help for misspelt names."""

from __future__ import annotations

import pytest

from flags.arguments import parse_arguments
from process.errors import ArgumentsError


def parse(text):
    return parse_arguments(text.split())


def refusal(words):
    """Return the program's message about these words, with a line for each problem."""
    with pytest.raises(ArgumentsError) as error:
        parse_arguments(words)
    return error.value.problems


def test_older_spellings_mean_what_they_meant_and_are_noted():
    args = parse(
        "--activations-checkpoint-method block --activations-checkpoint-num-layers 2 "
        "--data-impl mmap --profile-execution --profile-name mine --seed 7 --train-iters 20"
    )
    assert (args.recompute_granularity, args.recompute_method) == ("full", "block")
    assert args.recompute_num_layers == 2
    assert args.profile
    assert args.seed == 7
    text = "\n".join(args.notes)
    assert "--activations-checkpoint-method is called --recompute-granularity full" in text
    assert "--profile-execution is called --profile today" in text
    assert "--data-impl has no effect" in text


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("--torch-compile --hidden-dropout 0.1", "compiles neither dropout nor"),
        ("--hidden-size 100 --num-attention-heads 3", "cannot be split"),
        ("--profile --profile-step-start 5 --profile-step-end 5", "must lie before"),
        ("--cuda-graphs", "--cuda-graphs needs --torch-compile"),
        ("--max-position-embeddings 8 --seq-length 16", "less than --seq-length 16"),
        ("--num-query-groups 2", "no effect without --group-query-attention"),
        ("--group-query-attention --num-query-groups 3", "equal groups; use a divisor of 4"),
        (
            "--position-embedding-type rope --rotary-percent 0.1",
            "rotates 3 of a head's 32 components",
        ),
        ("--swiglu --hidden-size 16", "gives an MLP of width 0"),
    ],
)
def test_values_that_cannot_work_are_told(flags, told):
    assert told in "\n".join(refusal(flags.split()))


def test_the_shape_of_the_model_has_megatrons_defaults():
    args = parse("")
    assert (args.num_query_groups, args.ffn_hidden_size) == (args.num_attention_heads, 512)
    args = parse("--group-query-attention --swiglu --hidden-size 384")
    assert (args.num_query_groups, args.ffn_hidden_size) == (1, 1024)


def test_a_run_folder_takes_what_no_flag_places_elsewhere(monkeypatch):
    monkeypatch.setenv("COURSE_RUN_DIR", "/somewhere/run-1")
    args = parse("--profile-dir elsewhere")
    assert args.tensorboard_dir == "/somewhere/run-1/tensorboard"
    assert args.profile_dir == "elsewhere"
    assert args.memory_dir == "/somewhere/run-1/memory"
