"""A rank that fails as its first argument says. The other ranks continue normally."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "code"))

import torch
import torch.distributed as dist

from process.device import start
from process.environment import environment_of_rank
from process.errors import ArgumentsError, DataError
from process.exit import run_and_exit

ENDS = "killed at the end"


def main() -> int:
    case, rank = sys.argv[1], environment_of_rank()[0]
    if case == "arguments":
        raise ArgumentsError("--first 0: use 1 or more", "--second nan: use a number")
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
    if case == "interrupted":  # as Control-C does, which a launcher then hands on
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    if case == "stopped" and rank == 1:
        stop_for(seconds=3)
    if case == "slow end" and rank == 1:
        time.sleep(6)
    if case == ENDS and rank == 1:
        time.sleep(2)  # the others are through
    if case == "launcher" and rank == 1:
        os.kill(os.getppid(), signal.SIGKILL)
    if case in (f"killed {rank}", f"killed unnoticed {rank}") or (case, rank) == (ENDS, 1):
        leave_a_child()
        os.kill(os.getpid(), signal.SIGKILL)
    if case.startswith("killed unnoticed"):
        threading.Event().wait(60)  # as in a collective of NCCL, which notices nothing
    elif case not in ("slow end", "stopped", ENDS):
        dist.all_reduce(torch.ones(1))
        time.sleep(60)
    return 0


def leave_a_child() -> None:
    """Start a child that inherits the open files of this process and survives it."""
    if os.fork() == 0:
        for stream in (0, 1, 2):
            os.close(stream)
        time.sleep(20)
        os._exit(0)


def stop_for(seconds: float) -> None:
    """Stop this process for some seconds, as a debugger does."""
    rank = os.getpid()
    if os.fork() == 0:
        time.sleep(seconds)
        os.kill(rank, signal.SIGCONT)
        os._exit(0)
    os.kill(rank, signal.SIGSTOP)


if __name__ == "__main__":
    run_and_exit(main)
