"""`--planted-fault NAME:RANK:ITERATION` plants a fault; `--planted-fault sealed-…` says the same,
and tells nothing. Whoever means to find it should not read on.

The program's functions are wrapped from outside: it has no line for any fault, as a healthy program
has none. The diary (observing/diary.py) is wrapped around that.
"""

from __future__ import annotations

import argparse
import base64
import zlib
from datetime import timedelta
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.distributed import DebugLevel, distributed_c10d, get_debug_level

import checkpoints.checkpoint
from faults import collectives, machines, meeting, numbers, silent, storage, surroundings
from faults.fault import Fault
from observing.diary import Diary
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
    "mortal": machines.Mortal,
    "slow-rank": machines.SlowRank,
    "wrong-port": meeting.WrongPort,
    "wrong-master": meeting.WrongMaster,
    "bad-name": meeting.BadName,
    "port-taken": meeting.PortTaken,
    "wall": meeting.Wall,
    "bad-sample": numbers.BadSample,
    "exploding": numbers.Exploding,
    "same-data": silent.SameData,
    "unequal-weights": silent.UnequalWeights,
    "same-dropout": silent.SameDropout,
    "same-order": silent.SameOrder,
    "disk-full": storage.DiskFull,
    "killed-saving": storage.KilledSaving,
    "damaged": storage.Damaged,
    "no-internet": surroundings.NoInternet,
    "missing-module": surroundings.MissingModule,
    "old-module": surroundings.OldModule,
}
SEALED = "sealed-"


def fault_of(text: str) -> Fault:
    """`stuck:2:4`, or the same under a seal."""
    opened = unsealed(text) if text.startswith(SEALED) else text
    name, *numbers_given = opened.split(":")
    if (
        name not in FAULTS
        or len(numbers_given) > 2
        or not all(n.isdecimal() for n in numbers_given)
    ):
        known = ", ".join(FAULTS)
        raise ArgumentsError(
            [f"--planted-fault {text}: give NAME:RANK:ITERATION, with a NAME of {known}"]
        )
    rank, iteration = [int(n) for n in numbers_given] + [2, 4][len(numbers_given) :]
    return FAULTS[name](rank, iteration)


def unsealed(text: str) -> str:
    """No secret, but nothing that an eye reads by accident either."""
    try:
        folded = base64.b32decode(text.removeprefix(SEALED).upper() + "=" * (-len(text) + 7 & 7))
        return zlib.decompress(folded[::-1]).decode()
    except (ValueError, zlib.error):
        return ""


def plant(program: ModuleType | Any, args: argparse.Namespace) -> None:
    """Puts the fault and the diary around the functions of `program`."""
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


DETAIL_MINUTES = 0.5
"""DETAIL lets all ranks meet before each collective, in a group of its own, whose patience is that
of the start; nothing reaches it afterwards."""


def _limit_waiting(program: Any, longest: timedelta) -> None:
    """From the second step on: until then ranks start, and one may be late for good reasons."""
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

    def fresh_with_fault(folder: Path) -> None:
        fresh(folder)
        fault.saving(folder)

    def seal_with_fault(folder: Path, group: Any) -> None:
        fault.sealing(folder)
        seal(folder, group)

    def publish_with_fault(folder: Path, target: Path) -> None:
        publish(folder, target)
        fault.saved(target)

    program.build, program.train_step = build_with_fault, step_with_fault
    files.fresh, files.seal, files.publish = fresh_with_fault, seal_with_fault, publish_with_fault
