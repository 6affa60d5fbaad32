"""Measurements of measure_links.py: ping-pong between two ranks, and all-reduces."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import torch
import torch.distributed as dist

from links.collectives import ALGORITHMS, GROUPS, library

STEP = 4  # factor between message sizes
LATENCY_TURNS = 120  # factor for the smallest message, as its time is only a few wake-ups
MOST_PAIRS = 120  # with more, only neighbours in the ring: 120 is all pairs of 16 ranks
WORD_BYTES = 4
Row = dict[str, Any]


def clock(device: torch.device) -> float:
    """Return the time in seconds after the device has finished its work."""
    if device.type != "cpu":
        torch.accelerator.synchronize()
    return time.perf_counter()


def words(size_bytes: int, device: torch.device) -> torch.Tensor:
    return torch.ones(max(1, -(-size_bytes // WORD_BYTES)), dtype=torch.float32, device=device)


def reduce_once(algorithm: str, tensor: torch.Tensor, ranks: tuple[int, ...]) -> float:
    """Return the seconds of one all-reduce that all ranks start together; check its result."""
    tensor.fill_(dist.get_rank() + 1)  # so that a missing or doubled summand is detected
    device = tensor.device
    # A barrier of these ranks: no rank leaves this all-reduce before all have entered it.
    library(torch.zeros(1, device=device), ranks)
    began = clock(device)
    ALGORITHMS[algorithm](tensor, ranks)
    seconds = clock(device) - began
    wanted = float(sum(rank + 1 for rank in ranks))
    if not bool((tensor == wanted).all()):
        raise RuntimeError(f"the {algorithm} all-reduce gave {tensor[0].item()} for {wanted}")
    return seconds


def sizes(args: argparse.Namespace) -> Iterator[int]:
    size_bytes = args.min_bytes
    while size_bytes <= args.max_bytes:
        yield size_bytes
        size_bytes *= STEP


def times(size_bytes: int, repeat: int) -> int:
    """Return how often to repeat: small messages often, large ones a few times."""
    return max(3, min(repeat, (4 << 20) // size_bytes))


def ping_pong(args: argparse.Namespace, pair: tuple[int, int], device: torch.device) -> list[Row]:
    """Measure the one-way time: half a round trip. The pair's first rank decides when to stop."""
    here, (first, second) = dist.get_rank(), pair
    rows: list[Row] = []
    for size_bytes in sizes(args):
        tensor, measured = words(size_bytes, device), []
        turns = times(size_bytes, args.repeat)
        if size_bytes == args.min_bytes:
            turns *= LATENCY_TURNS
        for turn in range(turns + 1):
            began = clock(device)
            if here == first:
                dist.send(tensor, second)
                dist.recv(tensor, second)
            else:
                dist.recv(tensor, first)
                dist.send(tensor, first)
            if turn:  # the first one warms up
                measured.append((clock(device) - began) / 2)
        # The pair's clocks differ. If only one rank stopped, the other would wait for ever at the
        # next size.
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
        # The median: one message that collided with another program's would distort the mean.
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
    """Measure one pair after the other, so that they do not disturb each other."""
    everyone, here = tuple(range(dist.get_world_size())), dist.get_rank()
    chosen = pairs(len(everyone))
    # All ranks create all groups in the same order, members or not: this makes names agree.
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


def exactly(args: argparse.Namespace, device: torch.device) -> Row:
    """Time `--repeat` all-reduces of `--bytes`; each takes as long as its slowest rank."""
    everyone = tuple(range(dist.get_world_size()))
    tensor = words(args.bytes, device)
    measured = [reduce_once(args.algorithm, tensor, everyone) for _ in range(args.repeat + 1)][1:]
    slowest = torch.tensor(measured, dtype=torch.float32, device=device)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    micros = [round(second * 1e6, 3) for second in slowest.tolist()]
    return {"size_bytes": tensor.nbytes, "algorithm": args.algorithm, "times_us": micros}
