"""Planting of faults: `--planted-fault NAME:RANK:ITERATION`, or `--planted-fault sealed-…`, which
hides the same text. If you want to find the fault yourself, stop reading here.

The program's functions are wrapped from outside, so that it has no line for any fault, like a
healthy program. The diary (observing/diary.py) is wrapped around the result."""

from __future__ import annotations

import argparse
import base64
import re
import zlib
from datetime import timedelta
from functools import wraps
from types import ModuleType
from typing import Any

import torch
from torch.distributed import DebugLevel, distributed_c10d, get_debug_level

import checkpoints.checkpoint
from faults import bottlenecks, collectives, machines, numbers, silent, start, storage
from faults.fault import Fault
from observing.diary import Diary
from process.environment import environment_of_rank
from process.errors import ArgumentsError

FAULTS: dict[str, type[Fault]] = {
    "stuck": collectives.Stuck,
    "skipped": collectives.Skipped,
    "shape": collectives.Shape,
    "extra": collectives.Extra,
    "hoard": machines.Hoard,
    "leak": machines.Leak,
    "killed": machines.Killed,
    "node-dies": machines.NodeDies,
    "mortal": machines.RandomNodeDeath,
    "slow-rank": machines.SlowRank,
    "wrong-port": start.WrongPort,
    "wrong-master": start.WrongMaster,
    "bad-name": start.BadName,
    "port-taken": start.PortTaken,
    "bad-sample": numbers.BadSample,
    "exploding": numbers.Exploding,
    "same-data": silent.SameData,
    "unequal-weights": silent.UnequalWeights,
    "same-dropout": silent.SameDropout,
    "same-order": silent.SameOrder,
    "disk-full": storage.DiskFull,
    "killed-saving": storage.KilledSaving,
    "damaged": storage.Damaged,
    "no-internet": start.NoInternet,
    "missing-module": start.MissingModule,
    "old-module": start.OldModule,
}
SEALED = "sealed-"


def fault_of(text: str) -> Fault:
    """Parse `stuck:2:4`, plain or sealed."""
    opened = unsealed(text) if text.startswith(SEALED) else text
    parts = re.fullmatch(r"([a-z-]+)(?::([0-9]{1,9}))?(?::([0-9]{1,9}))?", opened)
    if not parts or parts[1] not in FAULTS:
        known = ", ".join(FAULTS)
        raise ArgumentsError(
            f"--planted-fault {text}: give NAME:RANK:ITERATION, with a NAME of {known}"
        )
    return FAULTS[parts[1]](int(parts[2] or 2), int(parts[3] or 4))


def unsealed(text: str) -> str:
    """Decode a sealed fault; the seal only prevents reading it by accident."""
    try:
        folded = base64.b32decode(text.removeprefix(SEALED).upper() + "=" * (-len(text) + 7 & 7))
        return zlib.decompress(folded[::-1]).decode()
    except (ValueError, zlib.error):
        return ""


def plant(program: ModuleType | Any, args: argparse.Namespace) -> None:
    """Wrap the functions of `program` in bottleneck, fault and diary."""
    if args.planted_bottleneck:
        rank, every = environment_of_rank()[1] // 2, 1 if args.planted_bottleneck == "1" else 2
        _plant(program, args, bottlenecks.SlowDisk(rank, every))
    if args.planted_fault:
        _plant(program, args, fault_of(args.planted_fault))
    if args.diary:
        Diary(args).around(program)
    if args.detect_anomaly:
        torch.autograd.set_detect_anomaly(True)
    if args.distributed_timeout_seconds_after_init:
        if get_debug_level() == DebugLevel.DETAIL:
            args.distributed_timeout_minutes = min(args.distributed_timeout_minutes, DETAIL_MINUTES)
        _limit_waiting(program, timedelta(seconds=args.distributed_timeout_seconds_after_init))


# With DETAIL, all ranks meet before each collective in a group of its own. That group keeps its
# first time-out, which nothing can change later.
DETAIL_MINUTES = 0.5


def _limit_waiting(program: Any, longest: timedelta) -> None:
    """Set the time-out from the second step on: in the first, a rank may be late for good
    reasons."""
    step = program.train_step

    @wraps(step)
    def limit_after_first(training: Any, progress: Any) -> Any:
        done = step(training, progress)
        program.train_step = step
        for group in list(distributed_c10d._world.pg_map):
            distributed_c10d._set_pg_timeout(longest, group)
        return done

    program.train_step = limit_after_first


def _plant(program: Any, args: argparse.Namespace, fault: Fault) -> None:
    fault.at_start(args)
    files: Any = checkpoints.checkpoint
    build, step = program.build, program.train_step
    fresh, seal, publish = files.fresh, files.seal, files.publish

    @wraps(build)
    def build_with_fault(args: argparse.Namespace, *given: Any) -> Any:
        fault.before_build(args)
        training = build(args, *given)
        fault.built(training)
        return training

    @wraps(step)
    def step_with_fault(training: Any, progress: Any) -> Any:
        fault.before_step(training, progress)
        return step(training, progress)

    program.build, program.train_step = build_with_fault, step_with_fault
    files.fresh = lambda folder: (fresh(folder), fault.saving(folder))
    files.seal = lambda folder, group: (fault.sealing(folder), seal(folder, group))
    files.publish = lambda folder, target: (publish(folder, target), fault.saved(target))
