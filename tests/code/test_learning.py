"""On the sample text the tiny model learns."""

from __future__ import annotations

import math
import re

import one_run
import pytest

import sample_text

SCHEDULE = "--lr-decay-style cosine --lr-warmup-fraction 0.05"
TINY = (
    "--num-layers 2 --hidden-size 128 --num-attention-heads 4 --seq-length 128 "
    f"--micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --min-lr 1e-4 {SCHEDULE} "
    "--train-iters 200 --log-interval 20"
)


@pytest.fixture(scope="module")
def data(repository, tmp_path_factory):
    """The sample text of the workspace, if it is prepared."""
    prepared = repository / "data"
    folder = prepared if (prepared / "vocab.json").exists() else tmp_path_factory.mktemp("data")
    sample_text.main(["--out", str(folder)])
    return folder


def curve(worlds, ranks, data, flags):
    argv = [*flags.split(), "--data-path", str(data / "sample_text_document")]
    text = worlds(ranks).run(one_run.program, argv)[-1][1]
    losses = [float(loss) for loss in re.findall(r"lm loss: (\S+) ", text)]
    assert len(losses) == 10
    return losses


@pytest.mark.slow
def test_the_loss_falls_below_seventy_per_cent_in_two_hundred_steps(worlds, data):
    assert curve(worlds, 1, data, TINY)[-1] < 0.7 * math.log(8192)
