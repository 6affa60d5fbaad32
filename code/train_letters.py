"""Train a small model to predict the next letter of a text, on one device.

    python code/train_letters.py --text my.txt

Without `--text` it fetches its text from the internet, as many first scripts do."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
import urllib.request
from pathlib import Path

import torch
from torch import Tensor, nn

from flags.parser import FlagParser
from flags.ranges import COUNT, SIZE, Text
from process.environment import threads
from process.errors import DataError
from process.exit import run_and_exit
from process.pace import keep_pace

URL = "https://raw.githubusercontent.com/python/cpython/3.11/Lib/argparse.py"
# Context length, number of characters (all non-ASCII ones count as one), and embedding width.
BEFORE, LETTERS, FEATURES = 16, 128, 32
PATIENCE_S = 10


def text_of(path: str | None) -> Tensor:
    """Return the text as a vector of numbers below LETTERS."""
    if path:
        content = Path(path).read_bytes()
    else:
        print(f"fetching {URL}", flush=True)
        with urllib.request.urlopen(URL, timeout=PATIENCE_S) as answer:
            content = answer.read()
    if len(content) <= 2 * BEFORE:
        raise DataError(f"{path or URL} has {len(content)} letters; give a text of at least 100")
    return torch.tensor(list(content)).clamp(max=LETTERS - 1)


def model_of(width: int) -> nn.Module:
    def layer(inputs: int) -> list[nn.Module]:
        return [nn.Linear(inputs, width), nn.ReLU()]

    return nn.Sequential(
        nn.Embedding(LETTERS, FEATURES), nn.Flatten(),
        *layer(BEFORE * FEATURES), *layer(width), *layer(width), *layer(width),
        nn.Linear(width, LETTERS),
    )  # fmt: skip


def samples(
    text: Tensor, count: int, generator: torch.Generator, before: int = BEFORE
) -> tuple[Tensor, Tensor]:
    """Return pieces of the text at random positions, and the letter that follows each."""
    starts = torch.randint(len(text) - before, (count,), generator=generator)
    return text[starts[:, None] + torch.arange(before)], text[starts + before]


def tell(step: int, loss: float, elapsed_s: float) -> None:
    who = f"{socket.gethostname()} process {os.getpid()}"
    # Write the line at once: `print` writes the line end separately, and processes would mix.
    sys.stdout.write(f"{who}: step {step}, loss {loss:.4f}, {1e3 * elapsed_s:.1f} ms\n")
    sys.stdout.flush()


def train(args: argparse.Namespace) -> None:
    text = text_of(args.text)
    model = model_of(args.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    generator = torch.Generator()
    generator.seed()
    for step in range(1, args.steps + 1):
        began = time.perf_counter()
        x, y = samples(text, args.batch_size, generator)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tell(step, loss.item(), time.perf_counter() - began)


FLAGS = [
    ("--text", Text(), None, "file with the training text (default: download one)"),
    ("--batch-size", COUNT, 64, "samples per step"),
    ("--width", SIZE, 128, "width of the layers"),
    ("--steps", COUNT, 30, "optimizer steps"),
]


def main() -> int:
    torch.set_num_threads(threads())
    keep_pace()
    train(FlagParser(__doc__.splitlines()[0], {"flags": FLAGS}).parse_all(None))
    return 0


if __name__ == "__main__":
    run_and_exit(main)
