"""Tokens per second of the training program's layouts, beside a plain GPT.

    python benchmarks/engine.py --size S --rounds 7

Two sets of four gloo processes stand ready: one runs the program's layouts, the other the plain
model (single process, and PyTorch's DDP with fused AdamW). They take turns, round after round, so
that whatever else the machine does falls on all alike. Printed: medians, each layout's ratio to the
plain model, and the floor: the time of the matrix products alone.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from plain_gpt import PlainGPT, Shape
from worlds import Worlds

SIZES = {
    "S": Shape(layers=2, hidden=128, heads=4, length=128, vocabulary=8192),
    "S4": Shape(layers=4, hidden=128, heads=4, length=128, vocabulary=8192),
    "L": Shape(layers=4, hidden=256, heads=8, length=256, vocabulary=50304),
}


class Times(NamedTuple):
    """Seconds per step: on the clock, and of processor time."""

    clock: float
    processor: float


MICRO_BATCH, MICRO_BATCHES = 2, 8
SAMPLES = MICRO_BATCH * MICRO_BATCHES
TENSOR, PIPELINE = (f"--{name}-model-parallel-size 2" for name in ("tensor", "pipeline"))
CONTEXT = "--context-parallel-size 2"
LAYOUTS = {
    "DP4": ("", 1.05),
    "DP4 ZeRO-1": ("--use-distributed-optimizer", None),
    "FSDP2": ("--use-torch-fsdp2", 0.65),
    "TP2×DP2": (TENSOR, 0.75),
    "TP2×DP2 sequence parallel": (f"{TENSOR} --sequence-parallel", None),
    "CP2×DP2": (CONTEXT, 0.80),
    "PP2×DP2 1F1B": (PIPELINE, 1.0),
    "PP2×DP2 GPipe": (f"{PIPELINE} --pipeline-schedule gpipe", None),
    "PP2×DP2 zero bubble": (f"{PIPELINE} --pipeline-schedule zero-bubble", None),
    "TP2×PP2": (f"{TENSOR} {PIPELINE}", 0.65),
}
INTERLEAVED = {
    "PP2×DP2 interleaved": (f"{PIPELINE} --num-layers-per-virtual-pipeline-stage 1", None),
}


def flags_of(shape: Shape) -> list[str]:
    text = (
        f"--mock-data --vocab-size {shape.vocabulary} --num-layers {shape.layers} "
        f"--hidden-size {shape.hidden} --num-attention-heads {shape.heads} "
        f"--seq-length {shape.length} --micro-batch-size {MICRO_BATCH} "
        f"--global-batch-size {SAMPLES} --train-iters 1000 --lr 1e-4"
    )
    return text.split()


KEPT: dict[str, Any] = {}  # in each rank: the trainings that are built already


def program_step(name: str, flags: list[str], steps: int) -> Times:
    """Seconds for some steps of the program, as this rank sees them."""
    from arguments import parse_arguments
    from checkpoint import Progress
    from device import keep_memory
    from layout import make_layout
    from layout_checks import grid_from
    from pretrain_gpt import build, prepare, train_step

    if name not in KEPT:
        keep_memory()
        args = parse_arguments(flags)
        grid = grid_from(args, dist.get_world_size())
        prepare(args, grid)
        layout = make_layout(grid, dist.get_rank())
        KEPT[name] = (build(args, layout, torch.device("cpu")), Progress())
        train_step(*KEPT[name])
    training, progress = KEPT[name]
    return timed(lambda: train_step(training, progress), steps)


def plain_step(shape: Shape, steps: int) -> Times:
    """The same for the plain model: DDP where there are several ranks."""
    from samples import RandomSamples

    name = f"plain {shape}"
    if name not in KEPT:
        torch.manual_seed(1)
        model = PlainGPT(shape)
        adam = torch.optim.AdamW(model.groups(0.01), lr=1e-4, fused=True)
        whole = model
        if dist.get_world_size() > 1:
            whole = torch.nn.parallel.DistributedDataParallel(model)
        samples = RandomSamples(shape.vocabulary, shape.length, 1)
        KEPT[name] = (model, whole, adam, samples)
        plain_iteration(*KEPT[name], 0)
    return timed(lambda: plain_iteration(*KEPT[name], 0), steps)


def plain_iteration(
    model: PlainGPT, whole: Any, adam: torch.optim.Optimizer, samples: Any, first: int
) -> None:
    ranks, rank = dist.get_world_size(), dist.get_rank()
    count = MICRO_BATCHES // ranks
    adam.zero_grad()
    for number in range(count):
        start = first + (number * ranks + rank) * MICRO_BATCH
        rows = np.stack([samples.sample(start + n) for n in range(MICRO_BATCH)])
        text = torch.from_numpy(rows)
        if hasattr(whole, "require_backward_grad_sync"):
            whole.require_backward_grad_sync = number == count - 1
        (whole(text[:, :-1], text[:, 1:]) / count).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    adam.step()


def timed(step: Callable[[], object], steps: int) -> Times:
    dist.barrier()
    began, busy = time.perf_counter(), time.process_time()
    for _ in range(steps):
        step()
    busy = time.process_time() - busy
    dist.barrier()
    return Times((time.perf_counter() - began) / steps, busy / steps)


def floor_seconds(shape: Shape) -> float:
    """Every matrix product of one step, forward and backward, on one core."""
    rows, hidden = MICRO_BATCH * shape.length, shape.hidden
    layer = [(hidden, 3 * hidden), (hidden, hidden), (hidden, 4 * hidden), (4 * hidden, hidden)]
    total = 0.0
    for count, (inputs, outputs) in [(shape.layers, s) for s in layer] + [
        (1, (hidden, shape.vocabulary))
    ]:
        x, w, y = torch.ones(rows, inputs), torch.ones(outputs, inputs), torch.ones(rows, outputs)
        products = [lambda: x @ w.t(), lambda: y @ w, lambda: y.t() @ x]  # noqa: B023
        total += count * sum(best_of(product) for product in products)
    return total * MICRO_BATCHES


def best_of(product: Callable[[], object]) -> float:
    times = []
    for _ in range(10):
        began = time.perf_counter()
        product()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def measure(
    shape: Shape, layouts: dict[str, tuple[str, float | None]], rounds: int, steps: int
) -> dict[str, Times]:
    """Medians over the rounds: time on the clock, and processor time of all ranks together."""
    found: dict[str, list[Times]] = {}
    flags = flags_of(shape)

    def note(name: str, answers: list[Times]) -> None:
        processor = sum(times.processor for times in answers)
        clock = max(times.clock for times in answers)
        found.setdefault(name, []).append(Times(clock, processor))

    with Worlds() as program, Worlds() as plain:
        for _ in range(rounds):
            note("plain, one process", plain(1).run(plain_step, shape, steps))
            note("one process", program(1).run(program_step, "one process", flags, steps))
            note("plain DDP", plain(4).run(plain_step, shape, steps))
            for name, (more, _) in layouts.items():
                argv = flags + more.split()
                note(name, program(4).run(program_step, name, argv, steps))
    return {
        name: Times(*(statistics.median(column) for column in zip(*rows, strict=True)))
        for name, rows in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=SIZES, default="S")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=4, help="per round")
    parser.add_argument("--only", help="layouts whose name contains this")
    args = parser.parse_args()
    torch.set_num_threads(1)
    shape = SIZES[args.size]
    layouts = dict(LAYOUTS)
    if shape.layers >= 4:
        layouts.update(INTERLEAVED)
    if args.only:
        layouts = {name: value for name, value in layouts.items() if args.only in name}
    tokens = SAMPLES * shape.length
    floor = floor_seconds(shape) / 2
    seconds = measure(shape, layouts, args.rounds, args.steps)
    print(f"size {args.size}: {shape}, {args.rounds} rounds of {args.steps} steps")
    print(f"floor (products alone, two cores): {tokens / floor:8.0f} tokens/s")
    goals = {"one process": 1.05, **{name: goal for name, (_, goal) in layouts.items()}}
    for name, value in seconds.items():
        base = seconds["plain, one process" if "one process" in name else "plain DDP"]
        goal = goals.get(name)
        told = f"goal {goal:.2f}" if goal else ""
        print(
            f"{name:28}{tokens / value.clock:8.0f} tokens/s {base.clock / value.clock:6.2f} × plain"
            f"  (by processor time {base.processor / value.processor:4.2f})  {told}"
        )
    if "PP2×DP2 interleaved" in seconds and "PP2×DP2 1F1B" in seconds:
        plain, thin = (seconds[f"PP2×DP2 {name}"].clock for name in ("1F1B", "interleaved"))
        ratio = plain / thin
        print(f"interleaved / 1F1B: {ratio:.2f}  goal 1.15")


if __name__ == "__main__":
    main()
