"""A mixture of experts computes the same as the plain one, whichever ranks hold its experts."""

from __future__ import annotations

import gzip
import json
import re

import numpy as np
import one_run
import pytest
from test_equality import (
    BLOCK,
    EARLY,
    INTERLEAVED,
    LLAMA,
    SP,
    STEPS,
    UNIFORM,
    ZERO,
    check,
    each_of,
    plain_once,
    sizes,
)

from flags.arguments import parse_arguments
from flags.ranges import pattern_of
from parallel.layout_checks import grid_from
from process.errors import ArgumentsError

LOSS = re.compile(r"iteration +(\d+)/.*lm loss: (\S+) .*grad norm: (\S+) ")

AUX = "--moe-aux-loss-coeff 0.05"
BIAS = (
    "--moe-router-score-function sigmoid --moe-router-enable-expert-bias "
    "--moe-router-bias-update-rate 0.01"
)
FOUR = "--num-experts 4 --disable-bias-linear --moe-ffn-hidden-size 48"
MIXTRAL = f"{LLAMA} {FOUR} {AUX}"
DEEPSEEK = f"{LLAMA} {FOUR} {BIAS} --moe-layer-freq [0]*1+[1]*3 --moe-router-topk 3 "
DEEPSEEK += "--moe-shared-expert-intermediate-size 32"
SWITCH = f"{FOUR} {AUX} --moe-router-topk 1 --moe-router-pre-softmax --moe-layer-freq 2"


def experts(ranks, slices=None):
    tensor = f" --expert-tensor-parallel-size {slices}" if slices else ""
    return f"--expert-model-parallel-size {ranks}{tensor}"


MIXTURES = [
    (1, f"{MIXTRAL} --micro-batch-size 2"),
    (1, f"{DEEPSEEK} {UNIFORM} 3"),
    (1, SWITCH),
    (2, f"{MIXTRAL} {experts(1)} {ZERO}"),
    (2, f"{MIXTRAL} {experts(2)}"),
    (2, f"{DEEPSEEK} {experts(2)} {ZERO}"),
    (2, f"{SWITCH} {experts(2)} {UNIFORM} 1"),
    (2, f"{MIXTRAL} {sizes(tensor=2)} {SP} {experts(1)}"),
    (2, f"{DEEPSEEK} {sizes(tensor=2)} {SP} {experts(2, 1)} {ZERO}"),
    (2, f"{MIXTRAL} {sizes(pipeline=2)} --pipeline-schedule zero-bubble"),
    (2, f"{SWITCH} {sizes(pipeline=2)} {ZERO}"),  # with one word matrix at both ends
    (2, f"{DEEPSEEK} {sizes(context=2)} {experts(2)}"),
    (4, f"{MIXTRAL} {experts(4)}"),
    (4, f"{DEEPSEEK} {experts(2)} {ZERO} {EARLY} 3000"),
    (4, f"{MIXTRAL} {sizes(tensor=2)} {SP} {experts(2)} {ZERO}"),
    (4, f"{DEEPSEEK} {sizes(tensor=2)} {SP} {experts(4, 1)} {BLOCK} 1"),
    (4, f"{MIXTRAL} {sizes(tensor=2)} {SP} {experts(1, 4)}"),
    (4, f"{MIXTRAL} {sizes(pipeline=2)} {experts(2)} {INTERLEAVED} {ZERO}"),
    (4, f"{DEEPSEEK} {sizes(pipeline=2)} {experts(2)} --pipeline-schedule zero-bubble"),
    (4, f"{MIXTRAL} {sizes(context=2)} {experts(2)} {UNIFORM} 1 --rank-order cp-dp-tp-pp"),
    (4, f"{SWITCH} {experts(2)} {ZERO} --micro-batch-size 2"),
    (8, f"{MIXTRAL} {sizes(tensor=2, pipeline=2)} {SP} {experts(2)} {ZERO} {UNIFORM} 1"),
    (8, f"{DEEPSEEK} {sizes(tensor=2, pipeline=2)} {SP} {experts(4, 1)} {INTERLEAVED}"),
    (8, f"{DEEPSEEK} {sizes(tensor=2, context=2)} {SP} {experts(4)} {ZERO}"),
]


@pytest.fixture(scope="module")
def plain():
    made = {}
    return lambda argv: plain_once(argv, made)


@pytest.mark.many(4)
@each_of(MIXTURES)
def test_a_mixture_of_experts_equals_the_plain_one(worlds, plain, ranks, flags, tmp_path):
    argv = [*one_run.MODEL, *flags.split(), "--fp64"]
    check(worlds(ranks).run(one_run.run, argv, STEPS, str(tmp_path)), plain(argv), 1e-12, 1e-11)


# A slice of an expert is 18 wide: 72 bytes, which PyTorch's grouped kernel does not take.
ODD = (2, f"{MIXTRAL} --moe-ffn-hidden-size 36 {sizes(tensor=2)} {SP} {experts(1)}")


@each_of([*MIXTURES[4::5], ODD])
def test_in_float32_it_equals_it_to_rounding(worlds, plain, ranks, flags, tmp_path):
    """In later steps, rounding may change the expert of a token whose best scores are nearly
    equal."""
    argv = [*one_run.MODEL, *flags.split()]
    check(worlds(ranks).run(one_run.run, argv, STEPS, str(tmp_path)), plain(argv), 1e-5, 1e-3)


def program(worlds, ranks, flags, folder=None):
    """Output of the program on all ranks, with its diary in the folder."""
    argv = [*one_run.MODEL, *flags.split()]
    environment = {} if folder is None else {"COURSE_RUN_DIR": str(folder)}
    answers = worlds(ranks).run(one_run.program, argv, environment)
    assert [code for code, _ in answers] == [0] * ranks
    return "\n".join(text for _, text in answers)


def test_a_checkpoint_of_one_layout_is_read_by_any_other(worlds, tmp_path):
    """Compare the biases of the routers too, with the digits that are printed."""
    flags = f"{DEEPSEEK} --fp64 --log-interval 1 --lr-decay-iters 12"
    whole = LOSS.findall(program(worlds, 1, f"{flags} --train-iters 8"))
    layouts = [
        (4, f"{experts(4)} {ZERO} --async-save"),
        (2, f"{sizes(pipeline=2)} {experts(1)}"),
        (4, f"{sizes(tensor=2)} {SP} {experts(2)} {ZERO}"),
        (1, ""),
    ]
    text = ""
    for number, (ranks, layout) in enumerate(layouts, 1):
        files = f"--save {tmp_path} --load {tmp_path} --train-iters {2 * number}"
        text += program(worlds, ranks, f"{flags} {layout} {files}")
    assert LOSS.findall(text) == whole
    assert len(whole) == 8


def test_the_log_and_the_diaries_name_the_experts_of_rows(worlds, tmp_path):
    from course_lib.read import training_log

    flags = f"{MIXTRAL} {experts(2)} --log-interval 1 --train-iters 1 --diary"
    (tmp_path / "out.log").write_text(program(worlds, 2, flags, tmp_path))
    log = training_log(tmp_path / "out.log")
    (line,) = [row for row in (tmp_path / "out.log").read_text().splitlines() if "lm loss" in row]
    fields = dict(field.split(": ") for field in line.split(" | ")[1:] if ": " in field)
    diaries = [read_diary(tmp_path, rank) for rank in (0, 1)]
    tokens = np.array([list(of["tokens_per_expert"].values()) for of in diaries])  # [rank, layer]
    assert tokens.sum((0, 2)).tolist() == [2 * 8 * 16] * 4  # two experts for each token
    busiest = (tokens.sum(0).max(1) / tokens.sum(0).mean(1)).max()
    assert fields["busiest expert over mean"] == f"{busiest:.3f}"
    whole = tokens.sum(0)
    assert fields["fewest tokens per expert"] == str(whole.min())
    assert fields["most tokens per expert"] == str(whole.max())
    leaving = tokens[0, :, 2:].sum() + tokens[1, :, :2].sum()  # rank 0 has experts 0 and 1
    sent = leaving * 32 * 4
    assert fields["bytes to experts"] == fields["bytes from experts"].rstrip(" |") == str(sent)
    assert sum(of["to_experts_bytes"] for of in diaries) == sent
    assert 1.0 <= float(fields["load_balancing_loss"]) < 2.0
    assert log.world.expert == 2
    assert len(log.iterations) == 1


def test_a_profile_names_the_rows_of_each_expert_and_the_bytes(worlds, tmp_path):
    flags = f"{MIXTRAL} {experts(2)} --train-iters 2 --profile --profile-dir {tmp_path}"
    program(worlds, 2, f"{flags} --profile-step-start 1 --profile-step-end 2 --diary", tmp_path)
    [trace] = tmp_path.glob("rank0*.json.gz")
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    names = [event.get("name", "") for event in events]
    rows = [name.split()[1:-1] for name in names if name.startswith("experts: ")]
    assert {len(counts) for counts in rows} == {2}
    assert len(rows) == 4 * 4  # layers and micro-batches
    assert any(re.fullmatch(r"all-to-all of \d+ bytes", name) for name in names)


def read_diary(folder, rank):
    return json.loads((folder / "diary" / f"rank{rank}.jsonl").read_text().splitlines()[-1])


def test_a_bias_spreads_the_rows(worlds):
    """There is no balancing loss, and the choice is unequal at the start."""
    flags = f"{LLAMA} {FOUR} {BIAS} --moe-router-bias-update-rate 0.02 --moe-router-topk 1"
    flags += " --log-interval 1 --train-iters 20 --lr 1e-5 --min-lr 1e-6 --init-method-std 0.2"
    text = program(worlds, 1, flags)
    ratios = [float(ratio) for ratio in re.findall(r"busiest expert over mean: (\S+)", text)]
    assert min(ratios[10:]) < 0.8 * ratios[0]


@pytest.mark.parametrize(
    ("flags", "cure"),
    [
        ("--num-experts 4", "needs --disable-bias-linear"),
        (f"{FOUR} --moe-router-topk 5", "give at most 4"),
        (f"{FOUR} --moe-router-topk 1", "needs --moe-router-pre-softmax"),
        (f"{FOUR} --moe-router-enable-expert-bias", "needs --moe-router-score-function sigmoid"),
        (f"{FOUR} --tensor-model-parallel-size 2", "needs --sequence-parallel"),
        (f"{FOUR} --use-torch-fsdp2", "use --use-distributed-optimizer"),
        (f"{FOUR} --torch-compile", "or --torch-compile"),
        (f"{FOUR} --moe-layer-freq [0]*1+[1]*2", "for each of --num-layers 4"),
        (f"{FOUR} --moe-layer-freq [0]*4", "leave out --num-experts"),
        (f"{FOUR} --moe-layer-freq [2]", "such as [0]*1+[1]*3"),
        (f"{FOUR} --expert-model-parallel-size 4", "whose product divides 2"),
        ("--num-experts 3 --disable-bias-linear --expert-model-parallel-size 2", "multiple of 2"),
        ("--expert-model-parallel-size 2", "needs --num-experts"),
        (
            f"{FOUR} --use-tp-pp-dp-mapping --pipeline-model-parallel-size 2 "
            "--expert-tensor-parallel-size 2",
            "use an order that ends with pp",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_cure(flags, cure):
    ranks = 8 if "pp-dp-mapping" in flags else 2
    with pytest.raises(ArgumentsError) as error:
        grid_from(parse_arguments([*one_run.MODEL, *flags.split()]), ranks)
    assert cure in "\n".join(error.value.problems)


def test_layers_with_experts_are_chosen_as_megatron_lm_writes_it():
    assert pattern_of("2", 5) == [1, 0, 1, 0, 1]
    assert pattern_of("([0]*1+[1]*3)", 4) == pattern_of("[0,1,1,1]", 4) == [0, 1, 1, 1]
