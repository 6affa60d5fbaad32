"""Ranks of a memory trace: choose one, compute its times, and describe it in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from course_lib.mistakes.errors import ArgumentError
from course_lib.mistakes.kinds import what_it_is
from course_lib.show import tables
from course_lib.words import _

POINTS = 1200


def timelines_of(memory: Any) -> list[Any]:
    ranks = getattr(memory, "ranks", None)
    if ranks is None:
        ranks = getattr(getattr(memory, "memory", None), "ranks", None)
    found = list(ranks) if isinstance(ranks, tuple | list) else [memory]
    for line in found:
        if not hasattr(line, "bytes_by_category"):
            raise ArgumentError(
                _(
                    "a memory figure takes the result of read.memory, or one of its ranks; "
                    "it was given {line}",
                    line=what_it_is(line),
                )
            )
    if not found:
        raise ArgumentError(
            _("this memory trace has no rank; check that the job wrote memory/rank0…")
        )
    return found


def timeline_of(source: Any, rank: int | None = None) -> Any:
    lines = timelines_of(source)
    fullest = sorted(lines, key=lambda line: -line.peak_bytes)  # a rank may use several devices
    if rank is None or len({line.rank for line in lines}) == 1:
        return fullest[0]
    wanted = [line for line in fullest if line.rank == rank]
    if not wanted:
        there = ", ".join(str(number) for number in dict.fromkeys(line.rank for line in lines))
        raise ArgumentError(
            _("rank {rank} is not in this memory trace; it has {there}", rank=rank, there=there)
        )
    return wanted[0]


def whose(line: Any, device: bool) -> str:
    """Name the rank of a trace. Snapshots and some traces do not contain it."""
    rank = _("an unknown rank") if line.rank is None else _("rank {rank}", rank=line.rank)
    return f"{rank} · {line.device}" if device and line.device else rank


def points_of(line: Any) -> tuple[Any, Any]:
    time_us, by_category = line.downsample(POINTS)
    return np.asarray(time_us, dtype=float), np.asarray(by_category, dtype=float)


def zero_us(line: Any) -> float:
    return float(line.time_us[0]) if len(line.time_us) else 0.0


def span_us(line: Any) -> float:
    return float(line.time_us[-1] - line.time_us[0]) if len(line.time_us) else 0.0


def said_of(line: Any) -> str:
    scale, unit = tables.byte_scale(line.peak_bytes)
    divisor, time_unit = tables.time_scale(span_us(line))
    at = tables.quantity((line.peak_time_us - zero_us(line)) / divisor, time_unit)
    made_of = ", ".join(
        f"{name} {tables.quantity(part / scale, unit)}"
        for name, part in line.peak_composition.items()
        if part
    )
    peak = tables.quantity(line.peak_bytes / scale, unit)
    name = whose(line, device=False)
    return _(
        "{upper}{name} peaks at {peak} after {at} ({made_of}).",
        upper=name[:1].upper(),
        name=name[1:],
        peak=peak,
        at=at,
        made_of=made_of,
    )
