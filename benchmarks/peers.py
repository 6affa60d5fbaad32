"""The training program beside other teaching engines, in turns on the same machine.

    python benchmarks/peers.py --nanogpt FOLDER --picotron FOLDER --size S --rounds 7

FOLDER is a checkout of the public repository (no part of this one); either may be left out. Each
engine runs its own model and training step, and the program runs the same model beside it: GPT-2
with nanoGPT, a Llama with picotron. Both sides take the same samples and equally many tokens per
step; each engine draws its own weights.

Every engine runs twice: unchanged, and in processes whose C library keeps freed memory, like the
program's (`keep_memory` in code/process/device.py). Both ratios are printed: the first for a user's
experience, the second without the effect of that setting. Goal: 1.15 by the clock."""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any, NamedTuple

import code_on_path  # noqa: F401
import torch
from engine import SIZES
from plain_gpt import Shape
from timed_steps.other_engines import nanogpt_step, picotron_step
from timed_steps.ours_and_plain import MICRO_BATCH, MICRO_BATCHES, Times, flags_of, program_step
from worlds import Worlds

GOAL = 1.15
LLAMA = (
    "--position-embedding-type rope --rotary-base 500000 --normalization RMSNorm --swiglu "
    "--disable-bias-linear --untie-embeddings-and-output-weights --clip-grad 0 "
    "--ffn-hidden-size {ffn}"
)


class Duel(NamedTuple):
    """Layout of a comparison: the program's flags, and the engine's (tensor, context, pipeline)."""

    ranks: int
    flags: str = ""
    cuts: tuple[int, int, int] = (1, 1, 1)
    engine: str = "1f1b"


PICOTRON = {
    "one process": Duel(1),
    "DP4": Duel(4),
    "TP2×DP2": Duel(4, "--tensor-model-parallel-size 2", (2, 1, 1)),
    "CP2×DP2": Duel(4, "--context-parallel-size 2", (1, 2, 1)),
    "PP2×DP2 1F1B": Duel(4, "--pipeline-model-parallel-size 2", (1, 1, 2)),
    "PP2×DP2 GPipe": Duel(
        4, "--pipeline-model-parallel-size 2 --pipeline-schedule gpipe", (1, 1, 2), "afab"
    ),
    "TP2×PP2": Duel(
        4, "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2", (2, 1, 2)
    ),
}
NANOGPT = {"one process": Duel(1), "DP4": Duel(4)}


def ffn_of(shape: Shape) -> int:
    """Return the width at which three matrices cost about as much as two of 4 × hidden."""
    return 8 * shape.hidden // 3 // 32 * 32


def measure(shape: Shape, asked: argparse.Namespace) -> dict[tuple[str, str], list[list[float]]]:
    """Measure seconds per step by peer and layout: rounds of [program, peer, peer with memory
    kept]."""
    peers = (
        ("nanoGPT", nanogpt_step, asked.nanogpt, NANOGPT),
        ("picotron", picotron_step, asked.picotron, PICOTRON),
    )
    return {
        (name, layout): rounds_of(shape, asked, (name, step, folder), layout, duel)
        for name, step, folder, duels in peers
        if folder
        for layout, duel in duels.items()
    }


def rounds_of(
    shape: Shape, asked: argparse.Namespace, peer: tuple[str, Any, Path], layout: str, duel: Duel
) -> list[list[float]]:
    """Measure one layout in its own processes, because several of size L need over 24 GiB."""
    name, step, folder = peer
    flags = flags_of(shape, MICRO_BATCHES) + duel.flags.split()
    if name == "picotron":
        flags += LLAMA.format(ffn=ffn_of(shape)).split()
    rows = []
    with (
        Worlds(keep_groups=True) as program,
        Worlds(keep_groups=True) as plain,
        Worlds(keep_groups=True) as tuned,
    ):
        for _ in range(asked.rounds):
            ours = program(duel.ranks).run(program_step, f"{name} {layout}", flags, asked.steps)
            row = [clock(ours)]
            for keep, worlds in ((False, plain), (True, tuned)):
                theirs = worlds(duel.ranks).run(
                    step, str(folder), shape, ffn_of(shape), tuple(duel), asked.steps, keep
                )
                row.append(clock(theirs))
            rows.append(row)
            print(name, layout, *(f"{seconds:.3f}" for seconds in row), flush=True)
    return rows


def clock(answers: list[Times]) -> float:
    return max(times.clock for times in answers)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nanogpt", type=Path, help="checkout of nanoGPT")
    parser.add_argument("--picotron", type=Path, help="checkout of picotron")
    parser.add_argument("--size", choices=("S", "L"), default="S")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=4, help="per round")
    args = parser.parse_args()
    if not (args.nanogpt or args.picotron):
        parser.error("name a checkout with --nanogpt or --picotron")
    torch.set_num_threads(1)
    shape = SIZES[args.size]
    tokens = MICRO_BATCH * MICRO_BATCHES * shape.length
    print(f"size {args.size}: {shape}, {args.rounds} rounds of {args.steps} steps")
    for (peer, layout), rows in measure(shape, args).items():
        ours, plain, tuned = (statistics.median(column) for column in zip(*rows, strict=True))
        as_it_is, kept = (
            statistics.median(row[column] / row[0] for row in rows) for column in (1, 2)
        )
        print(
            f"{peer:9} {layout:14} {tokens / ours:8.0f} tokens/s beside {tokens / plain:8.0f}: "
            f"{as_it_is:5.2f} × (goal {GOAL}); with memory kept {tokens / tuned:8.0f}: "
            f"{kept:5.2f} ×"
        )


if __name__ == "__main__":
    main()
