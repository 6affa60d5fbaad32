"""Train a small transformer to summarize a function in one line, on one device.

    python code/train_summary.py --epochs 3 --save best.pt

It learns from Python's own standard library (summary/pairs.py), so it needs no internet. It is
written like a private script; in lesson 02b the learner extends it to many devices."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from tempfile import NamedTemporaryFile

import torch
from torch import nn
from torch.utils.data import DataLoader

from flags.parser import FlagParser
from flags.ranges import COUNT, Text
from process.environment import threads
from process.exit import run_and_exit
from summary.device import device_of
from summary.model import Summariser, loss_of
from summary.pairs import read_pairs

Loader = DataLoader[tuple[torch.Tensor, torch.Tensor]]


def train(
    model: nn.Module, loader: Loader, optimizer: torch.optim.Optimizer, device: torch.device
) -> float:
    """Train for one epoch; return the mean loss."""
    model.train()
    total = 0.0
    for source, summary in loader:
        loss = loss_of(model, source.to(device), summary.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


@torch.no_grad()
def test(model: nn.Module, loader: Loader, device: torch.device) -> float:
    """Return the mean loss without training."""
    model.eval()
    total = 0.0
    for source, summary in loader:
        total += loss_of(model, source.to(device), summary.to(device)).item()
    return total / len(loader)


def run(args: argparse.Namespace) -> None:
    device = device_of(0)
    torch.manual_seed(0)
    data = read_pairs()
    train_loader = DataLoader(data["train"], batch_size=args.batch_size, shuffle=True)
    validation_loader = DataLoader(data["validation"], batch_size=args.batch_size)
    test_loader = DataLoader(data["test"], batch_size=args.batch_size)
    model = Summariser().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    best, file = float("inf"), Path(os.environ.get("COURSE_RUN_DIR", "."), args.save)
    for epoch in range(1, args.epochs + 1):
        train_loss = train(model, train_loader, optimizer, device)
        validation_loss = test(model, validation_loader, device)
        print(
            f"epoch {epoch}: train loss {train_loss:.4f}, validation loss {validation_loss:.4f}",
            flush=True,
        )
        if validation_loss < best:
            best = validation_loss
            with NamedTemporaryFile(dir=file.parent, delete=False) as part:
                torch.save(model.state_dict(), part)
            Path(part.name).replace(file)  # so that nobody reads half a model
    model.load_state_dict(torch.load(file, map_location=device))
    print(f"test loss {test(model, test_loader, device):.4f}", flush=True)


FLAGS = [
    ("--epochs", COUNT, 3, "passes over all samples"),
    ("--batch-size", COUNT, 32, "samples per step"),
    ("--save", Text(), "best.pt", "file for the best model, in the folder of the run"),
]


def main() -> int:
    torch.set_num_threads(threads())
    run(FlagParser(__doc__.splitlines()[0], {"flags": FLAGS}).parse_all(None))
    return 0


if __name__ == "__main__":
    run_and_exit(main)
