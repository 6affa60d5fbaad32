"""Measurements of measure_links.py: ping-pong between two ranks, and all-reduces."""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from links.collectives import ALGORITHMS, GROUPS, library
from process import pace

STEP = 4  # factor between message sizes
WARM_UP = 2  # messages of each size that do not count
LEAST_TURNS = 12  # for each size
SMALL_TURNS = 8  # small messages so many times as often: scatter has to average out
BYTES_PER_SIZE = 12 << 20  # with the largest sizes, a turn takes long
POOL_BYTES = 64 << 20  # more than a cache holds
QUIET_SHARE = 5  # of all messages, the fifth that waited least for a processor counts
MOST_PAIRS = 120  # with more, only neighbours in the ring: 120 is all pairs of 16 ranks
WORD_BYTES = 4
Row = dict[str, Any]


def clock(device: torch.device) -> float:
    """Return the time in seconds after the device has finished its work."""
    if device.type != "cpu":
        torch.accelerator.synchronize()
    return time.perf_counter()


def count(size_bytes: int) -> int:
    """Return the number of words that hold this many bytes; at least one."""
    return max(1, -(-size_bytes // WORD_BYTES))


def words(size_bytes: int, device: torch.device) -> torch.Tensor:
    return torch.ones(count(size_bytes), dtype=torch.float32, device=device)


def reduce_once(algorithm: str, tensor: torch.Tensor, ranks: tuple[int, ...]) -> float:
    """Time one all-reduce that all ranks start together; check its result. Return seconds."""
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


def turns_of(size_bytes: int, repeat: int) -> int:
    """Return how often a message of this size is sent: small messages often, large ones rarely."""
    return max(LEAST_TURNS, min(SMALL_TURNS * repeat, BYTES_PER_SIZE // size_bytes))


@cache
def accounts() -> list[int | None]:
    """Open the statistics of each thread, once: opening takes longer than a small message. All
    groups exist by now, and with them their threads."""
    return [pace.open_wait_times(str(thread)) for thread in Path("/proc/self/task").glob("*")]


def all_waited_s() -> float:
    """Return how long this process's threads have waited for a processor (Linux; else 0)."""
    total_s = 0.0
    for account in accounts():
        with contextlib.suppress(OSError, IndexError):  # a thread may have ended
            total_s += pace.waited_s(account)
    return total_s


class Pool:
    """Numbers to send. A part is used again only after all other parts, so that no cache holds it.
    Nor does a cache hold gradients."""

    def __init__(self, size_bytes: int, device: torch.device) -> None:
        self.numbers, self.begin = words(size_bytes, device), 0

    def next_part(self, size_bytes: int) -> torch.Tensor:
        numbers = count(size_bytes)
        begin = self.begin if self.begin + numbers <= self.numbers.numel() else 0
        self.begin = begin + max(numbers, 1 << 16)
        return self.numbers[begin : begin + numbers]


def interleaved(turns: dict[int, int]) -> list[int]:
    """Return each size as often as it has turns, spread evenly, so that a disturbance of the
    machine meets large and small messages alike."""
    order = [((turn + 0.5) / turns[size], size) for size in turns for turn in range(turns[size])]
    return [size for _moment, size in sorted(order)]


def ping_pong(args: argparse.Namespace, pair: tuple[int, int], device: torch.device) -> list[Row]:
    """Measure one-way times, as half of round trips. The pair's first rank decides when to stop."""
    here, (first, second) = dist.get_rank(), pair
    pool, ready = Pool(max(POOL_BYTES, args.max_bytes), device), torch.zeros(1, device=device)
    library(torch.zeros(1, device=device), pair)  # no message waits until a pool is filled

    def message(size_bytes: int) -> tuple[float, float]:
        """Return the one-way time of a message, and how long this rank waited for a processor."""
        tensor = pool.next_part(size_bytes)
        if here == first:
            dist.recv(ready, second)
            before, began = all_waited_s(), clock(device)
            dist.send(tensor, second)
            dist.recv(tensor, second)
        else:
            before, began = all_waited_s(), clock(device)
            dist.send(ready, first)
            dist.recv(tensor, first)
            dist.send(tensor, first)
        return (clock(device) - began) / 2, all_waited_s() - before

    turns: dict[int, int] = {}
    for size_bytes in sizes(args):
        least_s = min(message(size_bytes)[0] for _ in range(WARM_UP))
        turns[size_bytes] = turns_of(size_bytes, args.repeat)
        # The pair's clocks differ. If only one rank stopped, the other would wait for ever at the
        # next size.
        enough = torch.tensor([float(least_s > args.longest_s)], device=device)
        dist.send(enough, second) if here == first else dist.recv(enough, first)
        if enough.item():
            break
    order = interleaved(turns)
    measured = [message(size_bytes) for size_bytes in order]
    theirs = torch.tensor([wait for _, wait in measured], dtype=torch.float32, device=device)
    dist.recv(theirs, second) if here == first else dist.send(theirs, first)
    seconds: dict[int, list[float]] = {size_bytes: [] for size_bytes in turns}
    waits: dict[int, list[float]] = {size_bytes: [] for size_bytes in turns}
    for size_bytes, (one_way_s, wait), other in zip(order, measured, theirs.tolist(), strict=True):
        seconds[size_bytes].append(one_way_s)
        waits[size_bytes].append(wait + other)
    return [row("point_to_point", size, seconds[size], waits[size], pair) for size in turns]


def all_reduces(args: argparse.Namespace, device: torch.device) -> list[Row]:
    """Measure all-reduces of all ranks."""
    everyone, rows = tuple(range(dist.get_world_size())), []
    for size_bytes in sizes(args):
        tensor, measured, waits = words(size_bytes, device), [], []
        for _turn in range(turns_of(size_bytes, args.repeat) + 1):
            before = all_waited_s()
            measured.append(reduce_once("library", tensor, everyone))
            waits.append(all_waited_s() - before)
        together = torch.tensor([*waits, min(measured)], dtype=torch.float64, device=device)
        dist.all_reduce(together, dist.ReduceOp.MAX)
        *waits, least_s = together.tolist()
        found = row("all_reduce", size_bytes, measured[1:], waits[1:], (None, None))
        rows.append(found | {"algorithm": "library"})
        if least_s > args.longest_s:
            break
    return rows


def row(
    kind: str, size_bytes: int, seconds: list[float], waits: list[float], pair: tuple[Any, Any]
) -> Row:
    # A message that met another program would distort the mean, and most medians.
    by_wait = [second for _wait, second in sorted(zip(waits, seconds, strict=True))]
    quiet = by_wait[: -(-len(by_wait) // QUIET_SHARE)]
    return {
        "kind": kind,
        "source": pair[0],
        "destination": pair[1],
        "size_bytes": count(size_bytes) * WORD_BYTES,
        "repeat": len(seconds),
        "time_us": round(statistics.median(quiet) * 1e6, 3),
        "fastest_us": round(min(seconds) * 1e6, 3),
        "algorithm": None,
    }


def pairs(world_size: int) -> list[tuple[int, int]]:
    every = list(combinations(range(world_size), 2))
    if len(every) <= MOST_PAIRS:
        return every
    return [(rank, rank + 1) for rank in range(world_size - 1)] + [(0, world_size - 1)]


def sweep(args: argparse.Namespace, device: torch.device) -> list[Row]:
    """Measure one pair at a time, so that the pairs do not disturb each other."""
    everyone, here = tuple(range(dist.get_world_size())), dist.get_rank()
    chosen = pairs(len(everyone))
    # All ranks create all groups in the same order, members or not: this makes names agree.
    for pair in chosen:
        GROUPS.setdefault(pair, dist.new_group(list(pair)))
    mine: list[Row] = []
    for pair in chosen:
        if here in pair:
            found = ping_pong(args, pair, device)
            mine += found if here == pair[0] else []
        dist.barrier()
    found = all_reduces(args, device) if len(everyone) > 1 else []
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
