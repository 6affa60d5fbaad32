"""Train small models of one width, with several learning rates and seeds at once.

    python code/train_sizes.py --text my.txt --width 64 --tokens 20000 80000 --lr 0.008 0.016

The model reads eight letters and predicts the next one, so a sample has one token to learn. A
matmul turns the letters into --width numbers, three layers add to these numbers, and a last matmul
gives each letter a score. One matmul computes all copies, one copy for each rate and seed. Copies
of one seed begin with equal weights and see the same samples.

With --parametrization mup the best rate does not depend on the width (Yang and others, 2022). Adam
moves each weight by about the rate, and an output of a hidden matrix sums `width` such moves. So
their rate and the scores are divided by the width."""

from __future__ import annotations

import argparse

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, embedding, layer_norm, relu

from flags.parser import FlagParser
from flags.ranges import COUNT, NUMBER, SIZE, OneOf, Real, Several, Text
from process.environment import threads
from process.errors import ArgumentsError
from process.exit import run_and_exit
from train_letters import LETTERS, samples, text_of

# Letters that the model reads, numbers for each of them, number of layers, samples that judge.
BEFORE, FEATURES, LAYERS, JUDGED_BY = 8, 16, 3, 4096
BASE_WIDTH = 16  # at which both parametrizations are the same model
# Adam's averages of the gradient and of its square; share of the steps that warm up.
BETAS, WARMUP = (0.9, 0.98), 0.1


class Copies:
    """The weights of all copies, in one row for each copy, and views of them as matrices."""

    def __init__(self, width: int, seeds: list[int], mup: bool) -> None:
        self.width, self.narrower = width, BASE_WIDTH / width if mup else 1.0
        self.hidden = [f"hidden {layer}" for layer in range(LAYERS)]
        inputs = BEFORE * FEATURES
        # Inputs and outputs of each matrix, the variance of its weights, the factor of its rate.
        # Scores are divided by the width, so larger weights of the head keep them as they were.
        matrices = {
            "embedding": (LETTERS, FEATURES, 1, 1),
            "first": (inputs, width, 2 / inputs, 1),
            **{name: (width, width, 2 / width, self.narrower) for name in self.hidden},
            "head": (width, LETTERS, 1 / width / self.narrower, 1),
        }
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        drawn = [
            variance**0.5 * torch.stack([torch.randn(rows * columns, generator=one)
                                         for one in generators])
            for rows, columns, variance, _ in matrices.values()
        ]  # fmt: skip
        counts = [one.shape[1] for one in drawn]
        self.row = torch.cat(drawn, 1)
        self.mean, self.square = torch.zeros_like(self.row), torch.zeros_like(self.row)
        factors = torch.tensor([float(factor) for *_, factor in matrices.values()])
        self.factors = factors.repeat_interleave(torch.tensor(counts))
        views = self.row.split(counts, 1)
        self.weights = {
            name: view.view(len(seeds), rows, columns).detach().requires_grad_()
            for view, (name, (rows, columns, *_)) in zip(views, matrices.items(), strict=True)
        }
        # Parameters are the weights that multiply; an embedding is looked up.
        self.parameters = self.row.shape[1] - LETTERS * FEATURES

    def losses(self, texts: Tensor, letters: Tensor) -> Tensor:
        """Return the mean loss of each copy: texts are [copies, samples, letters before]."""
        weights, copies = self.weights, len(texts)
        shift = LETTERS * torch.arange(copies)[:, None, None]
        x = embedding(texts + shift, weights["embedding"].flatten(0, 1)).flatten(2)
        x = layer_norm(x @ weights["first"], (self.width,))
        for name in self.hidden:
            x = layer_norm(x + relu(x @ weights[name]), (self.width,))
        scores = self.narrower * (x @ weights["head"])
        each = cross_entropy(scores.flatten(0, 1), letters.flatten(), reduction="none")
        return each.view(copies, -1).mean(1)

    def step(self, loss: Tensor, rates: Tensor, number: int) -> None:
        """Make a step of Adam; `rates` has a rate for each copy."""
        found = torch.autograd.grad(loss, list(self.weights.values()))
        gradient = torch.cat([one.flatten(1) for one in found], 1)
        self.mean.lerp_(gradient, 1 - BETAS[0])
        self.square.lerp_(gradient.square_(), 1 - BETAS[1])
        corrected = (1 - BETAS[1] ** number) ** 0.5 / (1 - BETAS[0] ** number)
        move = (self.mean / self.square.sqrt().add_(1e-8)).mul_(self.factors).mul_(rates)
        self.row.sub_(move, alpha=corrected)


def train(args: argparse.Namespace, learned: Tensor, judged: Tensor, tokens: int) -> None:
    seeds = [seed for _ in args.lr for seed in range(args.seeds)]
    copies = Copies(args.width, seeds, args.parametrization == "mup")
    rates = torch.tensor(args.lr).repeat_interleave(args.seeds)[:, None]
    generators = [torch.Generator().manual_seed(1000 + seed) for seed in range(args.seeds)]
    steps = max(1, round(tokens / args.batch_size))
    for number in range(1, steps + 1):
        drawn = [samples(learned, args.batch_size, one, BEFORE) for one in generators] * len(
            args.lr
        )
        texts, letters = (torch.stack(each) for each in zip(*drawn, strict=True))
        loss = copies.losses(texts, letters).sum()
        left = (steps - number) / steps  # linear decay to zero, after the warm-up
        now = min(number / steps / WARMUP, left / (1 - WARMUP))
        copies.step(loss, rates * now, number)
    texts, letters = samples(judged, JUDGED_BY, torch.Generator().manual_seed(0), BEFORE)
    with torch.no_grad():
        found = copies.losses(texts.expand(len(seeds), -1, -1), letters.expand(len(seeds), -1))
    for seed, rate, loss in zip(seeds, rates.flatten().tolist(), found.tolist(), strict=True):
        print(f"width {args.width}: {copies.parameters} parameters, "
              f"{steps * args.batch_size} tokens, rate {rate:g}, seed {seed}: "
              f"validation loss {loss:.4f}", flush=True)  # fmt: skip


FLAGS = [
    ("--text", Text(), None, "file with the training text (default: download one)"),
    ("--letters", NUMBER, 0, "learn only from the first letters (0: all but the last tenth)"),
    ("--width", SIZE, 32, "width of the layers"),
    ("--parametrization", OneOf(("standard", "mup")), "standard", "what changes with the width"),
    ("--tokens", Several(COUNT), [20_000], "one training for each number of tokens"),
    ("--lr", Several(Real(above=0, most=10)), [0.016], "learning rates"),
    ("--seeds", COUNT, 1, "number of seeds"),
    ("--batch-size", COUNT, 128, "tokens of a step"),
]


def main(argv: list[str] | None = None) -> int:
    torch.set_num_threads(threads())
    args = FlagParser(__doc__.splitlines()[0], {"flags": FLAGS}).parse_all(argv)
    cut = len(text := text_of(args.text)) * 9 // 10
    if not BEFORE < (args.letters or cut) <= cut or len(text) - cut <= BEFORE:
        raise ArgumentsError(f"--letters {args.letters}: give {BEFORE + 1} to {cut}")
    for tokens in args.tokens:
        train(args, text[: args.letters or cut], text[cut:], tokens)
    return 0


if __name__ == "__main__":
    run_and_exit(main)
