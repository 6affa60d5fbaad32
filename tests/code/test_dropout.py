"""Dropout: what it does to numbers, and on which ranks, steps and passes the masks are the same."""

from __future__ import annotations

import one_run
import pytest
import torch

from training.dropout import Masks

STEPS = 3
BOTH = ["--hidden-dropout", "0.2", "--attention-dropout", "0.3"]
SERIAL = [*one_run.MODEL, "--fp64", *BOTH]


def sizes(tensor=1, pipeline=1, context=1):
    return (
        f"--tensor-model-parallel-size {tensor} --pipeline-model-parallel-size {pipeline} "
        f"--context-parallel-size {context}"
    )


FULL = "--recompute-granularity full --recompute-method"
# They draw the same masks as one rank. Tensor ranks draw other ones for their heads.
SAME = [
    (1, f"{FULL} block --recompute-num-layers 2"),
    (1, "--recompute-granularity selective"),
    (1, "--use-torch-fsdp2"),
    (2, ""),
    (2, f"--use-torch-fsdp2 {FULL} uniform --recompute-num-layers 2"),
    (2, sizes(pipeline=2)),
    (2, f"{sizes(pipeline=2)} --pipeline-schedule gpipe --recompute-granularity selective"),
    (2, f"{sizes(pipeline=2)} --num-layers-per-virtual-pipeline-stage 1 {FULL} uniform"),
]


def masks(**changes):
    usual = {"hidden": 0.25, "attention": 0.5, "seed": 1, "sample": 0, "context": 0, "rows": 0,
             "heads": 0}  # fmt: skip
    return Masks(**usual | changes)


def mask_of(of, place="layer 0/mlp"):
    return of.of_hidden(torch.ones(64, 64), place) > 0


def test_a_mask_follows_from_what_it_is_for_alone():
    assert torch.equal(mask_of(masks()), mask_of(masks()))
    assert torch.equal(mask_of(masks()), mask_of(masks(heads=1))), "rows are whole on tensor ranks"
    others = [masks(seed=2), masks(sample=1), masks(context=1), masks(rows=1)]
    for other in others:
        assert not torch.equal(mask_of(masks()), mask_of(other))
    assert not torch.equal(mask_of(masks()), mask_of(masks(), "layer 1/mlp"))


@pytest.fixture(scope="module")
def alone(worlds):
    """Return losses, norms and gradients of one rank for these flags."""
    made = {}

    def run(argv, folder):
        key = tuple(argv)
        if key not in made:
            [made[key]] = worlds(1).run(one_run.run, argv, STEPS, str(folder))
        return made[key]

    return run


def equal(answers, wanted, allowed=1e-12):
    for answer in answers:
        for name in ("losses", "norms", "evaluations"):
            assert answer[name] == pytest.approx(wanted[name], rel=allowed), name
        for name, gradient in answer["gradients"].items():
            whole = torch.tensor(wanted["gradients"][name])[answer["place"][name]]
            torch.testing.assert_close(torch.tensor(gradient), whole, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("ranks", "flags"), SAME, ids=[f"{n} {f}" for n, f in SAME])
def test_layouts_and_recomputation_train_the_same_model(worlds, alone, ranks, flags, tmp_path):
    if "fsdp2" in flags:
        worlds.renew(ranks)
    wanted = alone(SERIAL, tmp_path / "alone")
    argv = [*SERIAL, *flags.split()]
    equal(worlds(ranks).run(one_run.run, argv, STEPS, str(tmp_path)), wanted)


def drawn(argv):
    """Return the dropped rows and heads of a rank, by micro-batch."""
    made = one_run.make(argv).pipeline.dropout
    found = []
    for number in range(2):
        of = made.masks(16, number)
        share = of.begin_attention(torch.empty(0), "layer 0")
        heads = torch.nn.functional.dropout(torch.ones(64, 64), share) > 0
        found.append((mask_of(of).numpy(), heads.numpy()))
    return found


@pytest.mark.parametrize(
    ("flags", "rows_alike", "heads_alike"),
    [
        ("--micro-batch-size 2", False, False),
        (sizes(tensor=2), True, False),
        (f"{sizes(tensor=2)} --sequence-parallel", False, False),
        (sizes(context=2), False, False),
        (sizes(pipeline=2), True, True),
    ],
)
def test_ranks_draw_alike_what_they_hold_alike(worlds, flags, rows_alike, heads_alike):
    first, second = worlds(2).run(drawn, [*SERIAL, *flags.split()])
    for number in range(2):
        (rows, heads), (other_rows, other_heads) = first[number], second[number]
        assert (rows == other_rows).all() == rows_alike
        assert (heads == other_heads).all() == heads_alike
    assert not (first[0][0] == first[1][0]).all(), "another mask for each micro-batch"


def test_evaluation_drops_nothing_and_other_seeds_drop_others(alone, tmp_path):
    few = ["--lr", "1e-9", "--min-lr", "0"]  # the weights of all runs stay those of the start
    plain = alone([*one_run.MODEL, "--fp64", *few], tmp_path / "plain")
    dropped = alone([*SERIAL, *few], tmp_path / "dropped")
    assert dropped["evaluations"] == pytest.approx(plain["evaluations"], rel=1e-6)
    assert dropped["losses"] != pytest.approx(plain["losses"], rel=1e-4)


@pytest.mark.parametrize(
    ("ranks", "flags"), [(1, ""), (2, f"{sizes(tensor=2)} --sequence-parallel"),
                         (2, f"{sizes(pipeline=2)} {FULL} uniform"), (2, "--use-torch-fsdp2")]
)  # fmt: skip
def test_a_resumed_run_drops_what_an_uninterrupted_one_does(worlds, ranks, flags, tmp_path):
    if "fsdp2" in flags:
        worlds.renew(ranks)
    folder = str(tmp_path / "cut")
    argv = [*one_run.MODEL, *BOTH, *flags.split(), "--lr-decay-iters", "12", "--save", folder,
            "--load", folder, "--save-interval", "2"]  # fmt: skip
    whole = [*argv, "--train-iters", "4"]
    [first, *_] = worlds(ranks).run(one_run.resumed, [*whole, "--save", str(tmp_path / "whole")])
    worlds(ranks).run(one_run.resumed, [*argv, "--train-iters", "2"])
    [again, *_] = worlds(ranks).run(one_run.resumed, whole)
    assert again["losses"] == first["losses"][2:]
    assert again["norms"] == first["norms"][2:]
