"""Lesson 06: the batch is doubled on 160 MiB until it overflows, as two runs predict."""

from __future__ import annotations

from typing import Any

from acceptance import jobs
from acceptance.notes import Notes
from course_lib import gpt

LIMIT_MIB, MARGIN = 160, 0.95
MICRO_BATCHES = (4, 8, 16, 32, 64)
# Causes by which the failure reader recognizes a full device memory.
FULL = ("cuda_oom", "device_limit")


def recipe(micro_batch: int) -> Any:
    return gpt.recipe(
        f"wall-{micro_batch}", nodes=2, gpus_per_node=1, micro_batch=micro_batch, iterations=3,
        log_memory_interval=1, device_memory_gib=LIMIT_MIB / 1024,
    )  # fmt: skip


def climb(notes: Notes) -> None:
    lab, peaks, broken = jobs.lab(notes.folder), {}, None
    for micro_batch in MICRO_BATCHES:
        run = lab.submit(recipe(micro_batch))
        run.wait()
        jobs.keep(run, notes.folder)
        if not run.ok:
            broken = run
            break
        peaks[micro_batch] = float(run.log.memory["max_reserved_mib"].max())
        notes.fact(f"micro-batch {micro_batch}", f"{peaks[micro_batch]:.1f} MiB reserved")
    notes.check("at least two batches fit", len(peaks) > 1, list(peaks))
    notes.check("a larger one does not", broken is not None, f"up to {micro_batch}")
    if broken is not None and len(peaks) > 1:
        cause(notes, broken)
        predict(notes, peaks, micro_batch)


def cause(notes: Notes, broken: Any) -> None:
    failure = broken.failure
    notes.fact("as the reader tells it", str(failure))
    notes.check("the cause is memory", failure.cause in FULL, failure.cause)
    tried = failure.details.get("tried_bytes", 0)
    notes.check("the size asked for is read", tried > 0, f"{tried / 2**20:.1f} MiB")


def predict(notes: Notes, peaks: dict[int, float], broken_at: int) -> None:
    """Extrapolate linearly from the two largest batches that fit."""
    (small, less), (large, more) = list(peaks.items())[-2:]
    per_sample = (more - less) / (large - small)
    largest = int((MARGIN * LIMIT_MIB - (more - per_sample * large)) / per_sample)
    between = large <= largest < broken_at
    notes.check(
        "the wall stands where the line puts it", between, f"{large} ≤ {largest} < {broken_at}"
    )
