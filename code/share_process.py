"""Measure two workers as threads of one process, and as two processes.

    torchrun --nproc-per-node 2 code/share_process.py

Each worker trains its own small model, without communication. Python runs one thread of a process
at a time (GIL), and PyTorch's operators are launched from Python. So threads take turns, and for
short operators, as in this model, launching is most of the work. The same is true with GPUs, as
Python launches every kernel; so this program uses processors only.

Each round measures one worker, two threads of rank 0, and two ranks, so that other load on the
machine affects all three alike."""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist
from torch import nn

from accumulate_ddp import tell
from flags.parser import FlagParser
from flags.ranges import COUNT, SIZE, Real
from process.device import start
from process.errors import ArgumentsError
from process.exit import run_and_exit
from train_letters import BEFORE, LETTERS, model_of


def steps_in(seconds: float, width: int, batch_size: int) -> int:
    """Return the number of steps of one worker. It is not paced like a device: pacing sleeps, and
    during one thread's sleep another can run."""
    torch.set_num_threads(1)
    model = model_of(width)
    optimizer = torch.optim.Adam(model.parameters())
    x, y = torch.randint(LETTERS, (batch_size, BEFORE)), torch.randint(LETTERS, (batch_size,))
    ends, done = time.perf_counter() + seconds, 0
    while time.perf_counter() < ends:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done += 1
    return done


def measure(args: argparse.Namespace) -> dict[str, float]:
    """Return the steps per second of all workers together in one round."""
    speeds = {}
    for name, ranks, threads in (("one worker", 1, 1), ("threads", 1, 2), ("processes", 2, 1)):
        dist.barrier()
        steps = torch.zeros((), dtype=torch.int64)
        if dist.get_rank() < ranks:
            with ThreadPoolExecutor(threads) as pool:
                asked = [(args.seconds, args.width, args.batch_size)] * threads
                steps += sum(pool.map(lambda one: steps_in(*one), asked))
        dist.all_reduce(steps)
        speeds[name] = steps.item() / args.seconds
    return speeds


def share(args: argparse.Namespace) -> None:
    start(args)
    if dist.get_world_size() != 2:
        raise ArgumentsError("start two ranks; they are compared with two threads")
    measure(argparse.Namespace(**{**vars(args), "seconds": 0.1}))  # the first steps are slow
    cores = len(os.sched_getaffinity(0))
    tell(f"cores: {cores}")
    for number in range(1, args.rounds + 1):
        speeds = measure(args)
        told = {"elapsed time per iteration (ms)": 1e3 / speeds["one worker"], **speeds}
        parts = "".join(f" | {name}: {value:.2f}" for name, value in told.items())
        tell(f" iteration {number:8d}/{args.rounds:8d}{parts} |")


FLAGS = [
    ("--rounds", COUNT, 10, "rounds of three measurements"),
    ("--seconds", Real(above=0, most=3600), 0.15, "duration of a measurement"),
    ("--width", SIZE, 16, "width of the layers, which sets the length of a kernel"),
    ("--batch-size", SIZE, 4, "samples per step"),
]


def main(argv: list[str] | None = None) -> int:
    args = FlagParser(__doc__.splitlines()[0], {"flags": FLAGS}).parse_all(argv)
    args.distributed_backend, args.distributed_timeout_minutes = "gloo", 10
    share(args)
    return 0


if __name__ == "__main__":
    run_and_exit(main)
