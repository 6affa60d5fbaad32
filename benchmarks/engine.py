"""Tokens per second of the training program's layouts, beside a plain GPT.

    python benchmarks/engine.py --size S --rounds 7
    python benchmarks/engine.py --size P --ranks 2 --micro-batches 2 --only PP2     interleaving

Sets of four gloo processes are kept ready: one runs the program's layouts, the others the plain
model (single process, and PyTorch's DDP with fused AdamW). They take turns, round after round, so
that other load on the machine affects all alike. Printed are medians, each layout's ratio to the
plain model, and the floor: the time of the matmuls alone.

The plain model runs twice: as usually written, which is the base of the ratios, and tuned: with
DDP's gradients as views of its buckets, in processes whose C library keeps freed memory, like the
program's (`keep_memory` in code/process/device.py).

Interleaving can gain only the bubble's loss, and only if each process has a core: with `--ranks 4`
on two cores another pipeline computes in the bubble."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import code_on_path  # noqa: F401
import torch
from plain_gpt import Shape
from timed_steps.ours_and_plain import (
    MICRO_BATCH,
    MICRO_BATCHES,
    Times,
    flags_of,
    plain_step,
    program_step,
)
from worlds import Worlds

from course_lib.plan.schedules.steps import orders
from course_lib.plan.schedules.timing import timed

SIZES = {
    "S": Shape(layers=2, hidden=128, heads=4, length=128, vocabulary=8192),
    "S4": Shape(layers=4, hidden=128, heads=4, length=128, vocabulary=8192),
    "L": Shape(layers=4, hidden=256, heads=8, length=256, vocabulary=50304),
    "P": Shape(layers=4, hidden=512, heads=8, length=256, vocabulary=128),  # stages that balance
}


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


def floor_seconds(shape: Shape, micro_batches: int) -> float:
    """Return the time of every matmul of one step, forward and backward, on one core."""
    rows, hidden = MICRO_BATCH * shape.length, shape.hidden
    layer = [(hidden, 3 * hidden), (hidden, hidden), (hidden, 4 * hidden), (4 * hidden, hidden)]
    total = 0.0
    for count, (inputs, outputs) in [(shape.layers, s) for s in layer] + [
        (1, (hidden, shape.vocabulary))
    ]:
        x, w, y = torch.ones(rows, inputs), torch.ones(outputs, inputs), torch.ones(rows, outputs)
        products = [lambda: x @ w.t(), lambda: y @ w, lambda: y.t() @ x]  # noqa: B023
        total += count * sum(best_of(product) for product in products)
    return total * micro_batches


def best_of(product: Callable[[], object]) -> float:
    times = []
    for _ in range(10):
        began = time.perf_counter()
        product()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def measure(
    shape: Shape, layouts: dict[str, tuple[str, float | None]], asked: argparse.Namespace
) -> dict[str, Times]:
    """Return medians over the rounds: wall-clock time, and processor time of all ranks together."""
    found: dict[str, list[Times]] = {}
    ranks, steps = asked.ranks, asked.steps
    flags, work = flags_of(shape, asked.micro_batches), (shape, asked.micro_batches, steps)

    def note(name: str, answers: list[Times]) -> None:
        processor = sum(times.processor for times in answers)
        clock = max(times.clock for times in answers)
        found.setdefault(name, []).append(Times(clock, processor))

    with (
        Worlds(keep_groups=True) as program,
        Worlds(keep_groups=True) as plain,
        Worlds(keep_groups=True) as tuned,
    ):
        for _ in range(asked.rounds):
            note("plain, one process", plain(1).run(plain_step, *work))
            note("tuned plain, one process", tuned(1).run(plain_step, *work, True))
            note("one process", program(1).run(program_step, "one process", flags, steps))
            note("plain DDP", plain(ranks).run(plain_step, *work))
            note("tuned plain DDP", tuned(ranks).run(plain_step, *work, True))
            for name, (more, _) in layouts.items():
                argv = flags + more.split()
                note(name, program(ranks).run(program_step, name, argv, steps))
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
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--micro-batches", type=int, default=MICRO_BATCHES, help="per step")
    parser.add_argument("--only", help="layouts whose name begins with this")
    args = parser.parse_args()
    torch.set_num_threads(1)
    shape = SIZES[args.size]
    layouts = dict(LAYOUTS)
    if shape.layers >= 4:
        layouts.update(INTERLEAVED)
    if args.only:
        layouts = {n: value for n, value in layouts.items() if n.startswith(args.only)}
    here = {"DP4": f"DP{args.ranks}", "DP2": f"DP{args.ranks // 2}"}
    layouts = {
        here.get(name[:3], name[:3]) + name[3:].replace("DP2", here["DP2"]): value
        for name, value in layouts.items()
    }
    tokens = MICRO_BATCH * args.micro_batches * shape.length
    floor = floor_seconds(shape, args.micro_batches) / 2
    seconds = measure(shape, layouts, args)
    report(args, tokens, floor, layouts, seconds)


def report(
    args: argparse.Namespace,
    tokens: int,
    floor: float,
    layouts: dict[str, tuple[str, float | None]],
    seconds: dict[str, Times],
) -> None:
    shape = SIZES[args.size]
    print(f"size {args.size}: {shape}, {args.rounds} rounds of {args.steps} steps")
    print(f"floor (products alone, two cores): {tokens / floor:8.0f} tokens/s")
    goals = {"one process": 1.05, **{name: goal for name, (_, goal) in layouts.items()}}
    for name, value in seconds.items():
        base, tuned = (
            seconds[f"{kind}{', one process' if 'one process' in name else ' DDP'}"]
            for kind in ("plain", "tuned plain")
        )
        goal = goals.get(name)
        told = f"goal {goal:.2f}" if goal else ""
        print(
            f"{name:28}{tokens / value.clock:8.0f} tokens/s {base.clock / value.clock:6.2f} × plain"
            f" {tuned.clock / value.clock:5.2f} × tuned"
            f"  (by processor time {base.processor / value.processor:4.2f})  {told}"
        )
    names = [f"PP2×DP{args.ranks // 2} {name}" for name in ("1F1B", "interleaved")]
    if all(name in seconds for name in names):
        plain, thin = (seconds[name].clock for name in names)
        most = most_of_interleaving(args.micro_batches * 2 // args.ranks)
        print(f"interleaved / 1F1B: {plain / thin:.2f}  goal 1.15, bubbles allow {most:.2f}")


def most_of_interleaving(micro_batches: int) -> float:
    """Compute the time of two even stages: with one thick chunk each, or with two thin ones."""
    thick, thin = (
        timed(orders(name, 2, micro_batches, chunks))["end"].max()
        for name, chunks in (("1f1b", 1), ("interleaved", 2))
    )
    return float(thick / thin)


if __name__ == "__main__":
    main()
