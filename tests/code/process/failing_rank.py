"""A rank that fails in the way that its first argument names; the others go on as they would."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "code"))

import torch
import torch.distributed as dist

from process.device import environment_of_rank, start
from process.errors import ArgumentsError, DataError
from process.failing import run_and_exit


def main() -> int:
    case, rank = sys.argv[1], environment_of_rank()[0]
    if case == "arguments":
        raise ArgumentsError(["--first 0: use 1 or more", "--second nan: use a number"])
    if case == "before" and rank == 1:
        raise DataError("no data at there.bin")
    if case == "late" and rank == 0:
        time.sleep(1)  # the others have failed before this one has opened its store
    if case == "late":
        raise DataError("no data anywhere")
    start(argparse.Namespace(distributed_backend="gloo", distributed_timeout_minutes=10))
    dist.barrier()
    if case == "one" and rank == dist.get_world_size() - 1:
        raise DataError("no data at here.bin")
    if case == "several" and rank:
        raise DataError("here" if rank == 1 else "there")
    if case == "bug" and rank == 1:
        raise RuntimeError("nobody foresaw this")
    if case == f"killed {rank}":
        os.kill(os.getpid(), signal.SIGKILL)
    if case == "slow end" and rank == 1:
        time.sleep(6)  # rank 0 leaves with its store: no reason to end what is still at work
        return 0
    if case != "slow end":
        dist.all_reduce(torch.ones(1))
        time.sleep(60)
    return 0


if __name__ == "__main__":
    run_and_exit(main)
