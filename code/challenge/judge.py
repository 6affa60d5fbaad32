"""Compute the mean loss of saved weights on random samples of a text.

    python code/challenge/judge.py --load runs/mine-12/checkpoints --text judge_text_document

Run it as one process, without a launcher. --seed determines the samples, so that a judgement can be
repeated. The program prints one line of JSON: model and training of the weights, and for each text
the loss, its standard error and the number of tokens."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `python -P` leaves it out

import numpy as np
import torch

from checkpoints.files import last_good
from checkpoints.saved_model import described
from dataset.indexed_data import IndexedText, check_present
from dataset.samples import Loader, Samples
from flags.arguments import parse_arguments
from flags.parser import FlagParser, name_of
from flags.ranges import SIZE, TEXT, Several, Whole
from flags.tables import MODEL
from parallel.layout import make_layout
from parallel.layout_checks import grid_from
from pretrain_gpt import Training, build, prepare
from process.device import start
from process.errors import DataError
from process.exit import run_and_exit

# Samples in one forward pass; few enough for any device.
BATCH = 32
FLAGS = [
    ("--load", TEXT, None, "folder of checkpoints; the newest complete one is used"),
    ("--text", Several(TEXT), None, "names of indexed files, without .bin"),
    ("--samples", SIZE, 1024, "samples from each text"),
    ("--seed", Whole(0, 2**32 - 1), 0, "seed of the random samples"),
]


def model_flags(model: dict[str, Any]) -> list[str]:
    """Return the flags for the model that a checkpoint's model.json describes."""
    words: list[str] = []
    for name, *_ in MODEL:
        value = model.get(name_of(name))
        if value is True:
            words.append(name)
        elif value not in (None, False):
            words += [name, str(value)]
    return [*words, "--vocab-size", str(model["vocab_size"])]


def loaded(folder: Path, text: str) -> tuple[Training, dict[str, Any]]:
    """Return the trained model on one device, and the checkpoint's description of it. Loading fails
    if the weights do not match the description."""
    start(parse_arguments([]))
    source, _ = last_good(folder)
    if source is None:
        raise DataError(f"no checkpoint in {folder}; give the recipe save=True")
    model, rows = described(source)
    own = ["--micro-batch-size", str(BATCH), "--data-path", text, "--load", str(folder)]
    args = parse_arguments([*model_flags(model), *own], 1)
    grid = grid_from(args, 1)
    prepare(args, grid)
    args.padded_vocab_size = rows
    layout = make_layout(grid, 0)
    device = torch.device("cpu")
    training = build(args, layout, device)
    progress = training.checkpoints.load(source, weights_only=True)
    seen = {"iteration": progress.iteration, "samples": progress.consumed_samples}
    return training, {**seen, "model": model}


def judged(training: Training, text: str, count: int, seed: int) -> dict[str, float]:
    """Return the mean loss and its standard error, from the spread of the batches' mean losses."""
    args = training.args
    check_present(text)
    samples = Samples(IndexedText.open(text).share(0, 1), args.seq_length, seed, text)
    batches = max(1, min(count, samples.count) // BATCH)
    loader = Loader(samples, args, training.layout, training.device)
    tokens = BATCH * args.seq_length
    losses = [
        float(training.pipeline.evaluate([loader.micro_batch(number * BATCH, 0)])) / tokens
        for number in range(batches)
    ]
    error = float(np.std(losses, ddof=1)) / math.sqrt(batches) if batches > 1 else math.nan
    return {"loss": float(np.mean(losses)), "error": error, "tokens": batches * tokens}


def main(argv: list[str] | None = None) -> int:
    parser = FlagParser(__doc__.splitlines()[0], {"flags": FLAGS})
    asked = parser.parse_all(argv, ("--load", "--text"))
    training, said = loaded(Path(asked.load), asked.text[0])
    texts = {text: judged(training, text, asked.samples, asked.seed) for text in asked.text}
    print(json.dumps({**said, "seed": asked.seed, "texts": texts}))
    return 0


if __name__ == "__main__":
    run_and_exit(main)
