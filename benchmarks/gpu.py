"""Training program beside a plain compiled GPT with fused AdamW, on one GPU.

    python benchmarks/gpu.py                     124 M parameters, sequence 1024, bfloat16
    python benchmarks/gpu.py --device cpu --tiny the same steps without a GPU

Both take turns in one process, round after round; if both do not fit into the device's memory, the
micro-batch is halved until they do. Printed are medians of tokens per second; MFU, which is model
FLOPs with attention counted in full, as in the planner, over the device's dense bfloat16 peak if it
is known; and the peak memory that the allocator counts."""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import code_on_path  # noqa: F401
import torch
import torch.distributed as dist
from plain_gpt import PlainGPT, Shape

from course_lib.plan import Model, of_sequence

# Dense bfloat16 matmuls (V100: float16), as the vendors state them.
PEAK_TFLOPS = {
    "V100": 125, "A100": 312, "A30": 165, "A40": 150, "A6000": 155, "L40S": 362, "L4": 121,
    "GH200": 989, "H100": 989, "H200": 989, "B200": 2250, "MI300X": 1307,
}  # fmt: skip
GPT2 = Shape(layers=12, hidden=768, heads=12, length=1024, vocabulary=50304)
TINY = Shape(layers=2, hidden=64, heads=4, length=64, vocabulary=512)
MICRO_BATCHES = 4
# By name: one step, and the peak memory in GiB.
Made = dict[str, tuple[Callable[[], object], float]]


def program(shape: Shape, micro_batch: int, compiled: bool, more: str) -> Callable[[], object]:
    """Return one step of the training program."""
    from checkpoints.checkpoint import Progress
    from flags.arguments import parse_arguments
    from parallel.layout import make_layout
    from parallel.layout_checks import grid_from
    from pretrain_gpt import build, prepare, train_step
    from process.device import start

    flags = (
        f"--mock-data --vocab-size {shape.vocabulary} --num-layers {shape.layers} "
        f"--hidden-size {shape.hidden} --num-attention-heads {shape.heads} --bf16 "
        f"--seq-length {shape.length} --micro-batch-size {micro_batch} --train-iters 10000 "
        f"--global-batch-size {micro_batch * MICRO_BATCHES} --lr 1e-4 {more}"
    )
    args = parse_arguments(flags.split() + ["--torch-compile"] * compiled)
    grid = grid_from(args, 1)
    prepare(args, grid)
    device = start(args)
    training = build(args, make_layout(grid, 0), device)
    progress = Progress()
    return lambda: train_step(training, progress)


def plain(
    shape: Shape, micro_batch: int, compiled: bool, device: torch.device
) -> Callable[[], object]:
    """Return one step of the plain model: autocast to bfloat16, like nanoGPT and similar
    programs."""
    model = PlainGPT(shape).to(device)
    forward = torch.compile(model) if compiled else model
    adam = torch.optim.AdamW(model.groups(0.01), lr=1e-4, fused=True)
    text = torch.randint(shape.vocabulary, (micro_batch, shape.length + 1), device=device)

    def step() -> None:
        adam.zero_grad()
        for _ in range(MICRO_BATCHES):
            with torch.autocast(device.type, torch.bfloat16):
                loss = forward(text[:, :-1], text[:, 1:])
            (loss / MICRO_BATCHES).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()

    return step


def seconds_of(step: Callable[[], object], steps: int) -> float:
    wait_for_device()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    wait_for_device()
    return (time.perf_counter() - began) / steps


def wait_for_device() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def peak_gib(make: Callable[[], Callable[[], object]]) -> tuple[Callable[[], object], float]:
    """Return the warmed-up step, and its peak memory beyond the memory before it."""
    before = torch.cuda.memory_allocated() if torch.cuda.is_available() else 0
    step = make()
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        step()
    peak = torch.cuda.max_memory_allocated() - before if torch.cuda.is_available() else 0
    return step, peak / 2**30


def make_both(args: argparse.Namespace, shape: Shape, compiled: bool, device: torch.device) -> Made:
    makers = {
        "plain": lambda: plain(shape, args.micro_batch, compiled, device),
        "program": lambda: program(shape, args.micro_batch, compiled, args.more),
    }
    while True:
        try:
            return {name: peak_gib(make) for name, make in makers.items()}
        except torch.OutOfMemoryError:
            if args.micro_batch == 1:
                raise
        args.micro_batch //= 2
        print(f"out of memory; again with --micro-batch {args.micro_batch}")
        gc.collect()
        torch.accelerator.empty_cache()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--micro-batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--more", default="", help="further flags of the program")
    args = parser.parse_args()
    shape, compiled = TINY if args.tiny else GPT2, not args.no_compile
    device = torch.device(args.device)
    made = make_both(args, shape, compiled, device)
    times = in_turns(made, args.rounds)
    tokens = args.micro_batch * MICRO_BATCHES * shape.length
    print(f"{device_name()}: {shape}, {tokens} tokens per step")
    for row in rows(shape, tokens, times, made):
        print(f"{row['name']:8} {line(row)}")
    dist.destroy_process_group()


def in_turns(made: Made, rounds: int) -> dict[str, list[float]]:
    """Return the seconds per step of each, round by round."""
    times: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(rounds):
        for name, (step, _) in made.items():
            times[name].append(seconds_of(step, 5))
    return times


def device_name() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


def rows(
    shape: Shape, tokens: int, times: dict[str, list[float]], made: Made
) -> list[dict[str, Any]]:
    model = Model("gpt", shape.layers, shape.hidden, shape.heads, shape.length, shape.vocabulary)
    flops = of_sequence(model).model * tokens / shape.length
    peak = next((value for name, value in PEAK_TFLOPS.items() if name in device_name()), None)
    seconds = {name: statistics.median(each) for name, each in times.items()}
    return [
        {
            "name": name,
            "tokens_per_s": tokens / took_s,
            "mfu_percent": 100 * flops / took_s / peak / 1e12 if peak else None,
            "peak_gib": made[name][1],
            "of_plain": seconds["plain"] / took_s,
        }
        for name, took_s in seconds.items()
    ]


def line(row: dict[str, Any]) -> str:
    mfu = f"{row['mfu_percent']:.1f} %" if row["mfu_percent"] else "unknown peak"
    return (
        f"{row['tokens_per_s']:10.0f} tokens/s  MFU {mfu}  peak {row['peak_gib']:.2f} GiB"
        f"  {row['of_plain']:.2f} × plain"
    )


if __name__ == "__main__":
    main()
