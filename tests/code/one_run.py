"""What a rank does in the tests: build the program's training, take gradients, train a little."""

from __future__ import annotations

import contextlib
import io
import os
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import _dynamo

MODEL = [
    *[
        "--mock-data",
        "--vocab-size",
        "250",
        "--make-vocab-size-divisible-by",
        "32",
        "--num-layers",
        "4",
    ],
    *[
        "--hidden-size",
        "32",
        "--num-attention-heads",
        "4",
        "--seq-length",
        "16",
        "--micro-batch-size",
        "1",
    ],
    *[
        "--global-batch-size",
        "8",
        "--train-iters",
        "20",
        "--lr",
        "1e-2",
        "--lr-decay-style",
        "cosine",
    ],
    *["--min-lr", "1e-3", "--weight-decay", "0.1", "--clip-grad", "1.0"],
]


def make(argv: list[str]) -> Any:
    """The program's own steps from flags to a training."""
    from parallel.layout import make_layout
    from parallel.layout_checks import grid_from
    from pretrain_gpt import build, prepare
    from training.arguments import parse_arguments

    args = parse_arguments(argv)
    grid = grid_from(args, dist.get_world_size())
    prepare(args, grid)
    layout = make_layout(grid, dist.get_rank())
    return build(args, layout, torch.device("cpu"))


def whole_gradients(training: Any) -> dict[str, np.ndarray]:
    """This rank's gradients after all sums, as they are in the parameter's own shape."""
    from parallel.fully_sharded import FullySharded

    holder = training.holder
    if not isinstance(holder, FullySharded) and holder.sharded:
        dist.all_gather_single(
            holder.gradients, holder.reduced, group=training.layout.copies.handle
        )
    found = {}
    for stage in training.stages:
        for name, parameter in stage.named_parameters():
            if isinstance(holder, FullySharded):
                gradient = parameter.grad.full_tensor()
            else:
                gradient = parameter.main_grad
            found[name] = gradient.numpy().copy()
    return found


def run(argv: list[str], steps: int) -> dict[str, Any]:
    """Gradients of the first step with the place of each in the whole, then some steps' losses."""
    from pretrain_gpt import train_step
    from training.checkpoint import Progress

    training = make(argv)
    args = training.args
    tokens = args.global_batch_size * args.seq_length
    training.holder.zero()
    batches = training.loaders["train"].batch(0, training.micro_batches)
    training.pipeline.train(batches, training.holder.seed_factor / tokens)
    training.holder.reduce()
    gradients = whole_gradients(training)
    losses, norms = [], []
    progress = Progress()
    for _ in range(steps):
        loss, result = train_step(training, progress)
        total = loss.double() / training.layout.tensor.size
        dist.all_reduce(total)
        losses.append(total.item() / tokens)
        norms.append(result.norm.item())
    return {
        "gradients": gradients,
        "place": {name: place for name, (_, place) in training.checkpoints.wholes.items()},
        "losses": losses,
        "norms": norms,
    }


def graph_breaks(argv: list[str]) -> int:
    """How often the compiler has to give up on the model and begin anew."""
    training = make(argv)
    batch = training.loaders["train"].micro_batch(0, 0)
    return _dynamo.explain(training.stages[0].forward)(*batch).graph_break_count


def program(argv: list[str], environment: dict[str, str] | None = None) -> tuple[int, str]:
    """The whole program in this rank: its exit code and what it printed."""
    import pretrain_gpt

    printed = io.StringIO()
    changed = {name: os.environ.get(name) for name in environment or {}}
    os.environ.update(environment or {})
    try:
        with contextlib.redirect_stdout(printed):
            code = pretrain_gpt.main(argv)
    finally:
        for name, value in changed.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    return code, printed.getvalue()
