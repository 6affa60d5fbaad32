"""Samples of a run: the sequences, their order, and the part of each rank."""

from __future__ import annotations

import argparse

import numpy as np
import torch
from torch import Tensor

from dataset.indexed_data import IndexedText, check_present, split_shares
from dataset.tokenizer_files import padded, vocabulary_size
from parallel.context_parallel import my_positions
from parallel.layout import Grid, Layout
from process.errors import DataError

DEFAULT_DATA = "data/sample_text_document"
# Tokens that are checked when the text is opened: reading 64 million takes a moment. Later
# ones are checked when their sample is read.
CHECKED = 2**26


def prepare(args: argparse.Namespace, grid: Grid) -> None:
    """Set the vocabulary size, padded so that tensor ranks share it evenly."""
    if not args.mock_data:
        args.data_path = args.data_path or DEFAULT_DATA
        check_present(args.data_path)
    args.vocab_size = vocabulary_size(args)
    tensor = grid.sizes["tp"]
    args.padded_vocab_size = padded(args.vocab_size, args.make_vocab_size_divisible_by, tensor)


class Samples:
    """Sequences of `length` + 1 tokens, in a new random order in every epoch."""

    def __init__(self, tokens: np.ndarray, length: int, seed: int, name: str) -> None:
        self.tokens, self.length, self.seed = tokens, length, seed
        # A sample's last label is the first token of the next sample, so that no label is lost.
        self.count = (len(tokens) - 1) // length
        if self.count < 1:
            raise DataError(
                f"the {name} share of the data has {len(tokens)} tokens, fewer than one sample "
                f"of {length} + 1; give a larger share with --split, a shorter --seq-length, or "
                "more text"
            )
        self.epoch = -1
        self.order: np.ndarray = np.empty(0)

    def sample(self, number: int) -> np.ndarray:
        epoch, within = divmod(number, self.count)
        # Every rank draws the same order from seed and epoch; none is sent or saved.
        if epoch != self.epoch:
            self.epoch = epoch
            self.order = np.random.default_rng([self.seed, epoch]).permutation(self.count)
        at = int(self.order[within]) * self.length
        return self.tokens[at : at + self.length + 1]


class RandomSamples:
    """Random tokens that depend only on the sample's number (--mock-data)."""

    def __init__(self, vocabulary: int, length: int, seed: int) -> None:
        self.vocabulary, self.length, self.seed = vocabulary, length, seed

    def sample(self, number: int) -> np.ndarray:
        generator = np.random.default_rng([self.seed, number])
        return generator.integers(0, self.vocabulary, self.length + 1)


class Loader:
    """Samples of this rank's data rank, at the positions of its context rank.

    The number of consumed samples determines the next sample numbers, so that a run continues where
    it stopped, on any number of ranks."""

    def __init__(
        self,
        samples: Samples | RandomSamples,
        args: argparse.Namespace,
        layout: Layout,
        device: torch.device,
    ) -> None:
        self.samples, self.micro, self.device = samples, args.micro_batch_size, device
        self.vocabulary: int = args.vocab_size
        self.data = layout.data
        self.positions = my_positions(args.seq_length, layout.context)

    def micro_batch(self, first_sample: int, number: int) -> tuple[Tensor, Tensor]:
        """Return tokens and labels, one row per token, by position and then by sample."""
        # In each round of micro-batches the data ranks take consecutive samples.
        start = first_sample + (number * self.data.size + self.data.index) * self.micro
        # Shape [length + 1, samples]; this rank takes the rows of its positions.
        rows = np.stack([self.samples.sample(start + n) for n in range(self.micro)], 1)
        check_tokens(rows, self.vocabulary, f"samples {start} to {start + self.micro - 1}")
        text = torch.from_numpy(rows.astype(np.int64))
        tokens, labels = text[self.positions], text[self.positions + 1]
        return self._moved(tokens.flatten()), self._moved(labels.flatten())

    def _moved(self, rows: Tensor) -> Tensor:
        """Copy to the device from pinned memory, so that the copy overlaps with computation."""
        if self.device.type == "cpu":
            return rows
        return rows.pin_memory().to(self.device, non_blocking=True)

    def batch(self, first_sample: int, micro_batches: int) -> list[tuple[Tensor, Tensor]]:
        return [self.micro_batch(first_sample, number) for number in range(micro_batches)]


def check_tokens(tokens: np.ndarray, vocabulary: int, where: str) -> None:
    """Check that the vocabulary has all these tokens. If it did not, no tensor rank would have the
    row of the matrix, and the look-up would return zeros without an error."""
    smallest, largest = int(tokens.min()), int(tokens.max())
    if smallest < 0 or largest >= vocabulary:
        wrong = largest if largest >= vocabulary else smallest
        raise DataError(
            f"the data has token {wrong} (in {where}), and the vocabulary has 0 to "
            f"{vocabulary - 1}; give the --vocab-file or --vocab-size with which the data was made"
        )


Loaders = dict[str, Loader]


def make_loaders(args: argparse.Namespace, layout: Layout, device: torch.device) -> Loaders:
    """Return loaders for training and, with --eval-iters, for validation and test."""
    names = ["train", "validation", "test"] if args.eval_iters else ["train"]
    if args.mock_data:
        sets = [RandomSamples(args.vocab_size, args.seq_length, args.seed + n) for n in range(3)]
        return {n: Loader(s, args, layout, device) for n, s in zip(names, sets, strict=False)}
    text = IndexedText.open(args.data_path)
    check_tokens(text.tokens[:CHECKED], args.vocab_size, f"{args.data_path}.bin")
    found = {}
    for name, (first, last) in zip(names, split_shares(args.split), strict=False):
        share = Samples(text.share(first, last), args.seq_length, args.seed, name)
        found[name] = Loader(share, args, layout, device)
    return found
