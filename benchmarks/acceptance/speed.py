"""Speed by benchmarks/gpu.py: 124 million parameters in bfloat16, compiled, beside a plain GPT."""

from __future__ import annotations

import argparse

import code_on_path  # noqa: F401
import gpu
import torch
import torch.distributed as dist

from acceptance.notes import Notes

# Least ratio of the program's tokens per second to the plain compiled model's.
LEAST = 1.0


def measure(notes: Notes) -> None:
    shape, micro_batch, rounds = (gpu.TINY, 2, 1) if notes.rehearse else (gpu.GPT2, 16, 3)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    args = argparse.Namespace(micro_batch=micro_batch, more="")
    made = gpu.make_both(args, shape, not notes.rehearse, device)
    times = gpu.in_turns(made, rounds)
    rows = gpu.rows(shape, args.micro_batch * gpu.MICRO_BATCHES * shape.length, times, made)
    for row in rows:
        notes.fact(row["name"], gpu.line(row))
        notes.check(f"the {row['name']} model's speed is a number", row["tokens_per_s"] > 0)
    of_plain = rows[-1]["of_plain"]
    fast_enough = of_plain >= LEAST or notes.rehearse
    notes.check(f"at least {LEAST} times the plain model", fast_enough, f"{of_plain:.2f}")
    dist.destroy_process_group()
