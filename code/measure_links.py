"""How fast are the roads between the devices?

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
import statistics
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from links.collectives import ALGORITHMS, GROUPS, NODE_OF, library
from links.links_report import print_sweep
from process.device import environment_of_rank, run_and_exit, start

STEP = 4  # each size is four times the one before
MOST_PAIRS = 120  # beyond, only pairs with a neighbour in the ring: 120 is all pairs of 16 ranks
WORD_BYTES = 4
Row = dict[str, Any]


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
        help="ring and hierarchical are written out below; library is what the backend does",
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


def clock(device: torch.device) -> float:
    """Seconds; what the device still has to do is waited for first."""
    if device.type != "cpu":
        torch.accelerator.synchronize()
    return time.perf_counter()


def words(size_bytes: int, device: torch.device) -> torch.Tensor:
    return torch.ones(max(1, -(-size_bytes // WORD_BYTES)), dtype=torch.float32, device=device)


def reduce_once(algorithm: str, tensor: torch.Tensor, ranks: tuple[int, ...]) -> float:
    """Seconds of one all-reduce that all ranks begin together; its result is checked."""
    tensor.fill_(dist.get_rank() + 1)
    device = tensor.device
    library(torch.zeros(1, device=device), ranks)  # begin together
    began = clock(device)
    ALGORITHMS[algorithm](tensor, ranks)
    seconds = clock(device) - began
    wanted = float(sum(rank + 1 for rank in ranks))
    if not bool((tensor == wanted).all()):
        raise RuntimeError(f"the {algorithm} all-reduce gave {tensor[0].item()} for {wanted}")
    return seconds


# --- Measurements -----------------------------------------------------------------------------


def sizes(args: argparse.Namespace) -> Iterator[int]:
    size_bytes = args.min_bytes
    while size_bytes <= args.max_bytes:
        yield size_bytes
        size_bytes *= STEP


def times(size_bytes: int, repeat: int) -> int:
    """Small messages often, large ones a few times."""
    return max(3, min(repeat, (4 << 20) // size_bytes))


def ping_pong(args: argparse.Namespace, pair: tuple[int, int], device: torch.device) -> list[Row]:
    """One-way time: half of there and back. The first of the pair decides when to stop."""
    here, (first, second) = dist.get_rank(), pair
    rows: list[Row] = []
    for size_bytes in sizes(args):
        tensor, measured = words(size_bytes, device), []
        for turn in range(times(size_bytes, args.repeat) + 1):
            began = clock(device)
            if here == first:
                dist.send(tensor, second)
                dist.recv(tensor, second)
            else:
                dist.recv(tensor, first)
                dist.send(tensor, first)
            if turn:  # the first one warms up
                measured.append((clock(device) - began) / 2)
        enough = torch.tensor([float(max(measured) > args.longest_s)], device=device)
        dist.send(enough, second) if here == first else dist.recv(enough, first)
        rows.append(row("point_to_point", size_bytes, measured, pair))
        if enough.item():
            break
    return rows


def all_reduces(
    args: argparse.Namespace, ranks: tuple[int, ...], device: torch.device
) -> list[Row]:
    rows: list[Row] = []
    pair = ranks if len(ranks) == 2 and dist.get_world_size() > 2 else (None, None)
    for size_bytes in sizes(args):
        tensor = words(size_bytes, device)
        repeat = times(size_bytes, args.repeat)
        measured = [reduce_once("library", tensor, ranks) for _ in range(repeat + 1)][1:]
        slowest = torch.tensor([max(measured)], device=device)
        dist.all_reduce(slowest, dist.ReduceOp.MAX, group=GROUPS[ranks])
        rows.append(row("all_reduce", size_bytes, measured, pair) | {"algorithm": "library"})
        if slowest.item() > args.longest_s:
            break
    return rows


def row(kind: str, size_bytes: int, seconds: list[float], pair: tuple[Any, Any]) -> Row:
    return {
        "kind": kind,
        "source": pair[0],
        "destination": pair[1],
        "size_bytes": words(size_bytes, torch.device("cpu")).nbytes,
        "repeat": len(seconds),
        "time_us": round(statistics.median(seconds) * 1e6, 3),
        "fastest_us": round(min(seconds) * 1e6, 3),
        "algorithm": None,
    }


def pairs(world_size: int) -> list[tuple[int, int]]:
    every = list(combinations(range(world_size), 2))
    if len(every) <= MOST_PAIRS:
        return every
    return [(rank, rank + 1) for rank in range(world_size - 1)] + [(0, world_size - 1)]


def sweep(args: argparse.Namespace, device: torch.device) -> list[Row]:
    """One pair after the other, so that none disturbs another."""
    everyone, here = tuple(range(dist.get_world_size())), dist.get_rank()
    chosen = pairs(len(everyone))
    for pair in chosen:
        GROUPS.setdefault(pair, dist.new_group(list(pair)))
    mine: list[Row] = []
    for pair in chosen:
        if here in pair:
            found = ping_pong(args, pair, device)
            found += all_reduces(args, pair, device) if len(everyone) > 2 else []
            mine += found if here == pair[0] else []
        dist.barrier()
    found = all_reduces(args, everyone, device) if len(everyone) > 1 else []
    return mine + (found if here == 0 else [])


# --- What is told -----------------------------------------------------------------------------


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


def exactly(args: argparse.Namespace, device: torch.device) -> Row:
    """`--repeat` all-reduces of `--bytes`; the time of each is that of its slowest rank."""
    everyone = tuple(range(dist.get_world_size()))
    tensor = words(args.bytes, device)
    measured = [reduce_once(args.algorithm, tensor, everyone) for _ in range(args.repeat + 1)][1:]
    slowest = torch.tensor(measured, dtype=torch.float32, device=device)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    micros = [round(second * 1e6, 3) for second in slowest.tolist()]
    return {"size_bytes": tensor.nbytes, "algorithm": args.algorithm, "times_us": micros}


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
