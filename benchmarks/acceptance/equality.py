"""Comparison of every layout that fits the machine with the plain model.

Layouts, plain model and comparison are from tests/code/test_equality.py. Here ranks are on GPUs and
communicate through NCCL, even if several ranks share a GPU."""

from __future__ import annotations

import argparse
import os
import socket
import tempfile
import time
from typing import Any

import code_on_path  # noqa: F401
import torch
import torch.distributed as dist

from acceptance.notes import Notes
from acceptance.older_torch import name_collectives

# Ranks that a machine must support, however few GPUs they share.
ALWAYS = 4
ALLOWED = 1e-10
# Time after which results are reported, before the part's time limit ends it.
ENOUGH_S = 370
# Limit for one layout; most take less than six seconds. If one hangs, the others still have time.
PATIENCE_S = 60
# A rehearsal takes every fifth of the layouts on one and two ranks.
REHEARSED = 5
# Results of the plain model, computed once for all layouts of a shape.
PLAIN_RUNS: dict[tuple[Any, ...], Any] = {}


def join(rank: int, size: int, store: str) -> None:
    """Join the group like the program, so that the ranks agree on shared GPUs."""
    from process.device import start

    name_collectives(dist)
    shared = dist.FileStore(store, size)
    if rank == 0:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            shared.set("port", str(free.getsockname()[1]))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=shared.get("port").decode())
    start(argparse.Namespace(distributed_backend="nccl", distributed_timeout_minutes=3))


def layouts(rehearse: bool) -> list[tuple[int, str]]:
    from test_equality import LAYOUTS, SHAPES

    every = [*LAYOUTS, *SHAPES]
    if rehearse:
        return [layout for layout in every if layout[0] <= 2][::REHEARSED]
    most = max(ALWAYS, torch.cuda.device_count())
    return [layout for layout in every if layout[0] <= most]


def compare(notes: Notes) -> None:
    from worlds import Worlds

    chosen = layouts(notes.rehearse)
    notes.fact("layouts", len(chosen))
    equal, began_s = 0, time.perf_counter()
    with Worlds(join=join, patience_s=PATIENCE_S) as worlds:
        for ranks, flags in chosen:
            if time.perf_counter() - began_s > ENOUGH_S:
                break
            began, problem = time.perf_counter(), difference(worlds, ranks, flags)
            equal += not problem
            took = f"{time.perf_counter() - began:.1f} s"
            notes.check(f"{ranks} ranks, {flags or 'plain'}", not problem, problem or took)
        reached, (backend,) = len(notes.checks), worlds(1).run(dist.get_backend)
    notes.check("all layouts were reached in time", reached == len(chosen), reached)
    notes.check("ranks talked through NCCL", backend == "nccl" or notes.rehearse, backend)
    notes.fact("equal", f"{equal} of {len(chosen)}")


def difference(worlds: Any, ranks: int, flags: str) -> str:
    """Return "" if all values are equal, otherwise the difference, so that other layouts still
    run."""
    import one_run
    from test_equality import FSDP, STEPS, check, plain_once

    argv = [*one_run.MODEL, *flags.split(), "--fp64"]
    try:
        if FSDP in flags:
            worlds.renew(ranks)
        with tempfile.TemporaryDirectory() as checkpoints:
            answers = worlds(ranks).run(one_run.run, argv, STEPS, checkpoints)
        check(answers, plain_once(argv, PLAIN_RUNS), ALLOWED)
    except AssertionError as error:
        return str(error).strip()[-400:] or "a loss, a norm or an evaluation differs"
    return ""
