"""Samples of a run: the sequences, their order, and the part of each rank."""

from __future__ import annotations

import argparse
import math

import numpy as np
import torch
from torch import Tensor

from dataset.indexed_data import IndexedText, check_present, split_shares
from dataset.tokenizer_files import padded, vocabulary_size
from parallel.context_parallel import my_positions
from parallel.layout import Grid, Layout
from process.errors import DataError

LONGEST_PATTERN = 256_000
DEFAULT_DATA = "data/sample_text_document"
# Tokens of each text that are checked when it is opened: reading 64 million takes a moment. Later
# ones are checked when their sample is read.
CHECKED = 2**26


def prepare(args: argparse.Namespace, grid: Grid) -> None:
    """Set the vocabulary size, padded so that tensor ranks share it evenly."""
    if not args.mock_data:
        args.data_path = args.data_path or [DEFAULT_DATA]
        for prefix in weighted(args.data_path)[1]:
            check_present(prefix)
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


class Blend:
    """Several texts that alternate in a repeating pattern, by their shares of the samples."""

    def __init__(self, texts: list[Samples], weights: list[float]) -> None:
        self.texts = texts
        shares = np.array(weights) / sum(weights)
        # Long enough that the rarest text occurs twice.
        length = max(1000, math.ceil(2 / shares[shares > 0].min()))
        if length > LONGEST_PATTERN:
            raise DataError(
                "a text of --data-path would provide less than one sample in "
                f"{LONGEST_PATTERN // 2}; give it a larger weight, or leave it out"
            )
        self.taken = np.zeros(len(texts), np.int64)  # samples of each text in one pattern
        self.choices: list[tuple[int, int]] = []  # (text, earlier samples of it in the pattern)
        for number in range(1, length + 1):
            # Take the text furthest behind its share. This is not random: any rank can compute the
            # text of any sample.
            text = int(np.argmax(shares * number - self.taken))
            self.choices.append((text, int(self.taken[text])))
            self.taken[text] += 1

    def sample(self, number: int) -> np.ndarray:
        repeats, at = divmod(number, len(self.choices))
        text, before = self.choices[at]
        return self.texts[text].sample(repeats * int(self.taken[text]) + before)


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
        samples: Samples | Blend | RandomSamples,
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
            f"{vocabulary - 1}; give the --vocab-file, --tokenizer-model or --vocab-size with "
            "which the data was made"
        )


Loaders = dict[str, Loader]


def make_loaders(args: argparse.Namespace, layout: Layout, device: torch.device) -> Loaders:
    """Return loaders for training and, with --eval-iters, for validation and test."""
    names = ["train", "validation", "test"] if args.eval_iters else ["train"]
    if args.mock_data:
        sets = [RandomSamples(args.vocab_size, args.seq_length, args.seed + n) for n in range(3)]
        return {n: Loader(s, args, layout, device) for n, s in zip(names, sets, strict=False)}
    weights, prefixes = weighted(args.data_path)
    texts = [IndexedText.open(prefix) for prefix in prefixes]
    for text, prefix in zip(texts, prefixes, strict=True):
        check_tokens(text.tokens[:CHECKED], args.vocab_size, f"{prefix}.bin")
    found = {}
    for name, (first, last) in zip(names, split_shares(args.split), strict=False):
        parts = [
            Samples(text.stretch(first, last), args.seq_length, args.seed, name) for text in texts
        ]
        blend = Blend(parts, weights or [part.count for part in parts])
        found[name] = Loader(blend if len(parts) > 1 else parts[0], args, layout, device)
    return found


def weighted(words: list[str]) -> tuple[list[float], list[str]]:
    """Parse --data-path: files weighted by their length, or alternating weights and files."""
    if len(words) == 1 or not all(_is_number(word) for word in words[::2]):
        return [], words
    weights, prefixes = [float(word) for word in words[::2]], words[1::2]
    if len(weights) != len(prefixes) or min(weights) < 0 or sum(weights) <= 0:
        raise DataError(
            f"--data-path {' '.join(words)}: give only files, or a weight before each file (0.3 "
            "data/first 0.7 data/second); weights must not be negative or all 0"
        )
    return weights, prefixes


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False
