"""How fast are the links between the devices?

    srun torchrun ... code/measure_links.py                        # all pairs, 1 KB to 64 MB
    srun torchrun ... code/measure_links.py --bytes 5200000 --repeat 10 --algorithm hierarchical

The first form plays ping-pong between every pair of ranks, one pair at a time while the others
wait, and all-reduces over everyone and over every pair. The second times all-reduces of exactly
one size. Both print a table and write links.json into the run folder (COURSE_RUN_DIR).
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).resolve().parent))  # `python -P` leaves it out

from flags.parser import FlagParser
from flags.ranges import COUNT, OneOf, Real, Whole
from links.collectives import ALGORITHMS, GROUPS, NODE_OF
from links.links_report import print_sweep
from links.measurements import Row, exactly, sweep
from process.device import start
from process.environment import environment_of_rank
from process.errors import ArgumentsError
from process.failing import run_and_exit
from process.pace import PACE

SIZE_BYTES = Whole(1, 2**40)
FLAGS = [
    ("--min-bytes", SIZE_BYTES, 1 << 10, "size of the first messages"),
    ("--max-bytes", SIZE_BYTES, 64 << 20, "size of the last ones"),
    ("--bytes", SIZE_BYTES, None, "time all-reduces of this size, nothing else"),
    ("--repeat", COUNT, 10, "how often each message is sent"),
    ("--longest-s", Real(above=0, most=1e6), 0.03, "no larger size after this"),
    (
        "--algorithm",
        OneOf(tuple(sorted(ALGORITHMS))),
        "ring",
        "ring and hierarchical stand in links/collectives.py; library is the backend's own",
    ),
    ("--distributed-backend", OneOf(("gloo", "nccl")), None, "default: nccl where there is a GPU"),
    ("--distributed-timeout-minutes", Real(above=0, most=1e5), 10.0, "for a lost rank"),
]


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    args = FlagParser(__doc__.split("\n")[0], {"flags": FLAGS}).parse_all(argv)
    if args.max_bytes < args.min_bytes:
        raise ArgumentsError(
            [f"--max-bytes {args.max_bytes} is less than --min-bytes {args.min_bytes}"]
        )
    args.distributed_backend = args.distributed_backend or (
        "nccl" if torch.cuda.is_available() else "gloo"
    )
    return args


def meet(device: torch.device) -> list[Row]:
    """Who is where; ranks of a node have the same name for it."""
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname().split(".")[0]
    me = {"rank": dist.get_rank(), "node": node, "device": str(device), "pid": os.getpid()}
    me["pace"] = PACE.factor if PACE else 1  # of computing; messages are as fast as they go
    ranks: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, me)
    NODE_OF[:] = [rank["node"] for rank in ranks]
    GROUPS[tuple(range(len(ranks)))] = dist.group.WORLD
    return ranks


def write(ranks: list[Row], rows: list[Row], repeated: Row | None) -> Path:
    """The file appears whole or not at all: a notebook may be reading it."""
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


def main() -> int:
    args = arguments()
    device = start(args)
    ranks = meet(device)
    rows: list[Row] = []
    repeated = exactly(args, device) if args.bytes else None
    if not args.bytes:
        # Of each pair, the first rank has the rows.
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
            print("one rank has nobody to talk to; start two or more to measure links")
        print(f"written to {write(ranks, rows, repeated)}", flush=True)
    dist.barrier()
    return 0


if __name__ == "__main__":
    run_and_exit(main)
