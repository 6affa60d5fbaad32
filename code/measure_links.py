"""Measure the bandwidth and latency of the links between devices.

    srun torchrun ... code/measure_links.py                        # all pairs, 1 KB to 64 MB
    srun torchrun ... code/measure_links.py --bytes 5200000 --repeat 10 --algorithm hierarchical

The first form runs a ping-pong for every pair of ranks, one pair at a time, and then all-reduces
over all ranks. The second form times all-reduces of one size. Both forms print a table and write
links.json into the run folder (COURSE_RUN_DIR)."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from flags.parser import FlagParser
from flags.ranges import COUNT, OneOf, Real, Whole
from links.collectives import ALGORITHMS, GROUPS, NODE_OF
from links.measurements import Row, exactly, sweep
from process.device import start
from process.environment import environment_of_rank
from process.errors import ArgumentsError, node_name
from process.exit import run_and_exit
from process.pace import PACE

SIZE_BYTES = Whole(1, 2**40)
FLAGS = [
    ("--min-bytes", SIZE_BYTES, 1 << 10, "size of the smallest messages"),
    ("--max-bytes", SIZE_BYTES, 64 << 20, "size of the largest messages"),
    ("--bytes", SIZE_BYTES, None, "measure only all-reduces of this size"),
    ("--repeat", COUNT, 10, "repetitions of each message"),
    ("--longest-s", Real(above=0, most=1e6), 0.03, "stop at the first size that takes longer"),
    (
        "--algorithm",
        OneOf(tuple(sorted(ALGORITHMS))),
        "ring",
        "ring and hierarchical stand in links/collectives.py; library is the backend's own",
    ),
    ("--distributed-backend", OneOf(("gloo", "nccl")), None, "default: nccl with a GPU"),
    ("--distributed-timeout-minutes", Real(above=0, most=1e5), 10.0, "wait for a lost rank"),
]


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    args = FlagParser(__doc__.split("\n")[0], {"flags": FLAGS}).parse_all(argv)
    if args.max_bytes < args.min_bytes:
        raise ArgumentsError(
            f"--max-bytes {args.max_bytes} is less than --min-bytes {args.min_bytes}"
        )
    args.distributed_backend = args.distributed_backend or (
        "nccl" if torch.cuda.is_available() else "gloo"
    )
    return args


def meet(device: torch.device) -> list[Row]:
    """Gather rank, node and device of each rank; ranks of a node use the same node name."""
    me = {"rank": dist.get_rank(), "node": node_name(), "device": str(device), "pid": os.getpid()}
    me["pace"] = PACE.factor if PACE else 1  # pace of computation; messages are not slowed down
    ranks: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, me)
    NODE_OF[:] = [rank["node"] for rank in ranks]
    GROUPS[tuple(range(len(ranks)))] = dist.group.WORLD
    return ranks


def write(ranks: list[Row], rows: list[Row], repeated: Row | None) -> Path:
    """Write the file under another name and rename it: a notebook may be reading it."""
    path = Path(os.environ.get("COURSE_RUN_DIR") or ".") / "links.json"
    report = {
        "format": "course-links-1",
        "backend": dist.get_backend(),
        "device": ranks[0]["device"].split(":")[0],
        "world_size": len(ranks),
        "ranks": ranks,
        "samples": rows,
        "all_reduce": repeated,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".json.part")
    unfinished.write_text(json.dumps(report) + "\n", encoding="utf-8")
    unfinished.replace(path)
    return path


def matrix(rows: list[Row], world_size: int, value: Callable[[Row], float], last: bool) -> str:
    """Return a table with one number for each pair, of its smallest or its largest message.

    Rows of a pair are ordered by size. A pair is measured once as a round trip, so both its cells
    have the same number."""
    cells: dict[tuple[int, int], float] = {}
    for item in rows:
        pair = (item["source"], item["destination"])
        if item["kind"] == "point_to_point" and (last or pair not in cells):
            cells[pair] = value(item)
    lines = ["from \\ to" + "".join(f"{rank:>10}" for rank in range(world_size))]
    for here in range(world_size):
        line = f"{here:>9}"
        for there in range(world_size):
            found = cells.get((here, there), cells.get((there, here)))
            line += " " * 9 + "-" if found is None or here == there else f"{found:>10.4g}"
        lines.append(line)
    return "\n".join(lines)


def print_sweep(rows: list[Row], world_size: int) -> None:
    print("latency of the smallest message (us)")
    print(matrix(rows, world_size, lambda item: item["time_us"], last=False))
    print("bandwidth of the largest message (GB/s)")  # bytes per µs are MB/s
    print(
        matrix(rows, world_size, lambda item: item["size_bytes"] / item["time_us"] / 1e3, last=True)
    )
    print("all-reduce of everyone")
    print("      bytes         us")
    for item in rows:
        if item["kind"] == "all_reduce" and item["source"] is None:
            print(f"{item['size_bytes']:>11}{item['time_us']:>11.1f}", flush=True)


def main() -> int:
    args = arguments()
    device = start(args)
    ranks = meet(device)
    rows: list[Row] = []
    repeated = exactly(args, device) if args.bytes else None
    if not args.bytes:
        # The first rank of each pair has its rows.
        gathered: list[Any] = [None] * len(ranks)
        dist.all_gather_object(gathered, sweep(args, device))
        rows = [item for part in gathered for item in part]
        rows.sort(key=lambda item: (item["kind"], item["source"] or 0, item["destination"] or 0))
    if environment_of_rank()[0] == 0:
        if repeated:
            print(f"all-reduce of {repeated['size_bytes']} bytes, {args.algorithm} (ms): ", end="")
            print(" ".join(f"{micro / 1e3:.3f}" for micro in repeated["times_us"]))
        elif len(ranks) > 1:
            print_sweep(rows, len(ranks))
        else:
            print("one rank has no link; start two or more ranks to measure links")
        print(f"written to {write(ranks, rows, repeated)}", flush=True)
    dist.barrier()
    return 0


if __name__ == "__main__":
    run_and_exit(main)
