"""The tables that `measure_links.py` prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]


def matrix(rows: list[Row], world_size: int, value: Callable[[Row], float], last: bool) -> str:
    """One number for each pair: of its smallest or its largest message.

    Rows of a pair come by size. A pair is measured once, there and back, so both its cells have the
    same number.
    """
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
