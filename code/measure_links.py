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

from links.collectives import ALGORITHMS, GROUPS, NODE_OF
from links.links_report import print_sweep
from links.measurements import Row, exactly, sweep
from process.device import environment_of_rank, start
from process.failing import run_and_exit


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--min-bytes", type=int, default=1 << 10)
    parser.add_argument("--max-bytes", type=int, default=64 << 20)
    parser.add_argument("--bytes", type=int, help="time all-reduces of this size, nothing else")
    parser.add_argument("--repeat", type=int, default=10, help="how often each message is sent")
    parser.add_argument("--longest-s", type=float, default=0.03, help="no larger size after this")
    parser.add_argument(
        "--algorithm",
        choices=sorted(ALGORITHMS),
        default="ring",
        help="ring and hierarchical stand in links/collectives.py; library is the backend's own",
    )
    parser.add_argument("--distributed-backend", choices=["gloo", "nccl"], default=None)
    parser.add_argument("--distributed-timeout-minutes", type=float, default=10)
    args = parser.parse_args()
    for name in ("min_bytes", "max_bytes", "bytes", "repeat"):
        value = getattr(args, name)
        if value is not None and value < 1:
            parser.error(f"--{name.replace('_', '-')} {value} is too small; use 1 or more")
    if args.max_bytes < args.min_bytes:
        parser.error(f"--max-bytes {args.max_bytes} is less than --min-bytes {args.min_bytes}")
    args.distributed_backend = args.distributed_backend or (
        "nccl" if torch.cuda.is_available() else "gloo"
    )
    return args


def meet(device: torch.device) -> list[Row]:
    """Who is where; ranks of a node have the same name for it."""
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname().split(".")[0]
    me = {"rank": dist.get_rank(), "node": node, "device": str(device), "pid": os.getpid()}
    ranks: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, me)
    NODE_OF[:] = [rank["node"] for rank in ranks]
    GROUPS[tuple(range(len(ranks)))] = dist.group.WORLD
    return ranks


def write(
    ranks: list[Row], args: argparse.Namespace, rows: list[Row], repeated: Row | None
) -> Path:
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
        print(f"written to {write(ranks, args, rows, repeated)}", flush=True)
    dist.barrier()
    return 0


if __name__ == "__main__":
    run_and_exit(main)
