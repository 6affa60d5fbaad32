"""Accumulate gradients with PyTorch's DDP, correctly and with three mistakes in `no_sync`.

    torchrun --nproc-per-node 2 code/accumulate_ddp.py --micro-batches 4 --sync last

DDP averages the gradients over all ranks during backward. With accumulation, it should do so only
in the last backward pass:

    last       no_sync around forward and backward of all micro-batches but the last
    every      no no_sync: correct gradients, but sent once per micro-batch
    backward   no_sync around backward alone: DDP decided in forward, so nothing is saved
    never      no_sync around the last micro-batch, too: the ranks' models diverge

The model is a small perceptron that learns the outputs of another one. Each rank has different
samples. The `lm loss` in the log is the mean squared error: log readers know that name."""

import argparse  # no postponed annotations: DDP inspects the annotations of `counted`
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from flags.parser import DISTRIBUTED, FlagParser
from flags.ranges import COUNT, SIZE, OneOf
from observing.reporting import say
from process.device import start
from process.exit import run_and_exit
from process.pace import keep_pace

INPUTS, LEARNING_RATE = 64, 0.02
COMPARED = 64  # elements of each parameter that are compared over the ranks


@dataclass
class Sent:
    """Bytes and calls of DDP's all-reduces; bytes are of the input, not of the traffic."""

    size_bytes: int = 0
    calls: int = 0


def counted(sent: Sent, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """Count and run DDP's all-reduce of one bucket whose gradients are complete."""
    sent.size_bytes += bucket.buffer().nbytes
    sent.calls += 1
    assert dist.group.WORLD is not None
    return allreduce_hook(dist.group.WORLD, bucket)


def perceptron(width: int, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(INPUTS, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
        nn.Linear(width, 1),
    )  # fmt: skip


def silence(model: DistributedDataParallel, wanted: bool) -> AbstractContextManager[Any]:
    return model.no_sync() if wanted else nullcontext()


def accumulate(
    model: DistributedDataParallel, micro_batches: list[tuple[Tensor, Tensor]], sync: str
) -> Tensor:
    """Run forward and backward of each micro-batch; return the mean loss over all."""
    total = torch.zeros(())
    for number, (x, y) in enumerate(micro_batches):
        last = number == len(micro_batches) - 1
        quiet = {"last": not last, "every": False, "backward": not last, "never": True}[sync]
        with silence(model, quiet and sync != "backward"):
            # Each loss is a mean over its micro-batch; their sum must be the mean over all samples.
            loss = nn.functional.mse_loss(model(x), y) / len(micro_batches)
            with silence(model, quiet and sync == "backward"):
                loss.backward()
        total += loss.detach().cpu()
    return total


def difference_of_copies(numbers: Tensor) -> float:
    """Return the largest difference of a number between two ranks: 0 if all have the same."""
    # Two all-reduces return one vector each; an all-gather would return one per rank.
    high, low = numbers.clone(), numbers.clone()
    dist.all_reduce(high, dist.ReduceOp.MAX)
    dist.all_reduce(low, dist.ReduceOp.MIN)
    return float((high - low).max())


def train(args: argparse.Namespace) -> None:
    device, size = start(args), dist.get_world_size()
    keep_pace()
    student, teacher = perceptron(args.width, seed=0).to(device), perceptron(32, seed=1).to(device)
    model, sent = DistributedDataParallel(student), Sent()
    model.register_comm_hook(sent, counted)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    random = torch.Generator().manual_seed(100 + dist.get_rank())
    samples = args.micro_batch_size * args.micro_batches * size
    tell_world(args, student)
    for iteration in range(1, args.train_iters + 1):
        shape = (args.micro_batches, args.micro_batch_size, INPUTS)
        with torch.no_grad():
            parts = torch.randn(shape, generator=random).to(device)
            micro_batches = [(x, teacher(x)) for x in parts]
        began, before = time.perf_counter(), replace(sent)
        optimizer.zero_grad()
        loss = accumulate(model, micro_batches, args.sync)
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        elapsed_ms = 1e3 * (time.perf_counter() - began)
        dist.all_reduce(loss := loss.to(device))
        some = torch.cat([p.detach().flatten()[:COMPARED] for p in student.parameters()])
        told = {
            "iteration": f"{iteration:8d}/{args.train_iters:8d}",
            "consumed samples:": f"{iteration * samples:12d}",
            "elapsed time per iteration (ms):": f"{elapsed_ms:.1f}",
            "global batch size:": f"{samples:5d}",
            "lm loss:": f"{loss.item() / size:.6E}",
            "all-reduced (MB):": f"{(sent.size_bytes - before.size_bytes) / 1e6:.3f}",
            "all-reduces:": f"{sent.calls - before.calls}",
            "copies differ by:": f"{difference_of_copies(some):.3E}",
        }
        tell_iteration(told)


def tell(text: str) -> None:
    if dist.get_rank() == 0:
        say(text)


def tell_iteration(values: dict[str, str]) -> None:
    tell(" " + " | ".join(f"{name} {value}" for name, value in values.items()) + " |")


def tell_world(args: argparse.Namespace, model: nn.Module) -> None:
    size, count = dist.get_world_size(), sum(p.numel() for p in model.parameters())
    tell(
        f"using world size: {size}, data-parallel-size: {size}, tensor-model-parallel size: 1, "
        "pipeline-model-parallel size: 1"
    )
    tell(f"setting number of micro-batches to constant {args.micro_batches}")
    tell(f" > number of parameters on (tensor, pipeline) model parallel rank (0, 0): {count}")


FLAGS = [
    ("--sync", OneOf(("last", "every", "backward", "never")), "last", "when DDP averages"),
    ("--micro-batches", COUNT, 4, "backward passes per step"),
    ("--micro-batch-size", COUNT, 8, "samples per backward pass"),
    ("--width", SIZE, 768, "width of the perceptron"),
    ("--train-iters", COUNT, 6, "optimizer steps"),
    *DISTRIBUTED,
]


def main(argv: list[str] | None = None) -> int:
    train(FlagParser(__doc__.splitlines()[0], {"flags": FLAGS}).parse_all(argv))
    return 0


if __name__ == "__main__":
    run_and_exit(main)
