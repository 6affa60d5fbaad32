"""A run continues in a layout that pads the vocabulary to a different number of rows."""

from __future__ import annotations

import json
import re

import one_run
import pytest

LOSS = re.compile(r"iteration +(\d+)/.*lm loss: (\S+) .*grad norm: (\S+) ")
TENSOR = "--tensor-model-parallel-size"
PIPELINE = "--pipeline-model-parallel-size 2"


def trained(worlds, ranks, flags, steps, *folders):
    """Loss and norm of each step, unrounded."""
    argv = [*one_run.MODEL, "--lr-decay-iters", "12", "--fp64", "--vocab-size", "70",
            "--train-iters", str(steps), *flags.split(), *folders]  # fmt: skip
    answers = worlds(ranks).run(one_run.resumed, argv)
    return answers[0]


@pytest.mark.many(2)
@pytest.mark.parametrize(
    ("first", "then"),
    [
        ((1, ""), (2, f"{TENSOR} 2")),
        ((1, "--untie-embeddings-and-output-weights"),
         (4, f"{TENSOR} 4 --untie-embeddings-and-output-weights")),
        ((2, "--use-torch-fsdp2"), (4, f"{TENSOR} 2 --use-distributed-optimizer")),
        ((1, ""), (4, f"{TENSOR} 4 --make-vocab-size-divisible-by 48")),  # a rank of padding only
    ],
)  # fmt: skip
def test_it_continues_as_if_it_had_not_moved(worlds, tmp_path, first, then):
    save, load = ("--save", str(tmp_path)), ("--load", str(tmp_path))
    whole = trained(worlds, *first, 6)
    trained(worlds, *first, 2, *save)
    moved = trained(worlds, *then, 4, *save, *load)
    back = trained(worlds, *first, 6, *load)
    assert len(whole["losses"]) == 6
    assert moved["losses"] + back["losses"] == pytest.approx(whole["losses"][2:], rel=1e-12)
    assert moved["norms"] + back["norms"] == pytest.approx(whole["norms"][2:], rel=1e-12)
    saved = [json.loads((tmp_path / f"iter_000000{n}/model.json").read_text()) for n in (2, 4)]
    assert saved[0] == saved[1]
    assert moved["rows"] > 96  # rows of the padding were added, or kept
