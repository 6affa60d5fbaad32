"""How a rank ends: with the program's result, or at once with the reason of its failure.

Every rank that fails says so, with its rank and node; what several found alike is said once.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import torch.distributed as dist

from process import device
from process.errors import AskedError, LostRankError
from process.meeting import Meeting, node_name, open_store

EXIT_OUT_OF_MEMORY = 41
LONGEST_MEETING = timedelta(seconds=10)
PEER_GONE = re.compile(
    r"[Cc]onnection (?:closed|reset|refused)|[Bb]roken pipe|remote process exited|ncclRemoteError|"
    r"ncclSystemError|communicator was aborted|Timed out waiting|timed out after|Socket closed|"
    r"failed to recv|[Ww]atchdog caught collective operation timeout"
)
"""How gloo, NCCL and the store say that somebody stopped answering."""


def run_and_exit(main: Callable[[], int]) -> None:
    """Ends the process with the program's result, or at once with the reason of its failure.

    The end is not the interpreter's own: a thread of gloo that lets go of a tensor meanwhile can
    end the process with "terminate called without an active exception", after all work was done.
    """
    try:
        code = main()
    except Exception as error:
        fail(error)
    if device.MEETINGS:
        device.MEETINGS[-1].finish()
    if dist.is_initialized():
        dist.destroy_process_group()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def fail(error: BaseException) -> NoReturn:
    """Reports, and ends this process soon, so that no rank waits for it longer than needed."""
    sys.stdout.flush()
    out_of_memory = device.out_of_memory_line(error)
    if out_of_memory:  # each has its own size to tell; said first, while there is memory to say it
        _print([out_of_memory])
    meeting = _meet()
    if meeting is not None and meeting.too_late():
        os._exit(1)
    foreseen = isinstance(error, AskedError)
    if meeting is not None and not foreseen and PEER_GONE.search(str(error)):
        error = _named(meeting, error)
    speaks = not out_of_memory and _speaks(error, meeting)
    if speaks:
        _print(told(error))
    if meeting is not None:
        meeting.leave(speaks or bool(out_of_memory))
    if out_of_memory:
        os._exit(EXIT_OUT_OF_MEMORY)
    os._exit(error.exit_code if isinstance(error, AskedError) else 1)


def _named(meeting: Meeting, error: BaseException) -> BaseException:
    """A peer that stopped answering was killed, or its node is gone: it cannot say so itself."""
    lost = meeting.lost()
    return LostRankError(lost, error) if lost else error


def _meet() -> Meeting | None:
    """The ranks of this job; those that fail before they met do so now. None: nobody answers."""
    rank, world_size, _ = device.environment_of_rank()
    if device.MEETINGS or world_size == 1:
        return device.MEETINGS[-1] if device.MEETINGS else None
    try:
        return Meeting(open_store(rank, world_size, LONGEST_MEETING), rank, world_size)
    except (RuntimeError, ValueError):  # ValueError: no MASTER_ADDR
        return None


def _speaks(error: BaseException, meeting: Meeting | None) -> bool:
    """The first that has this error; where ranks cannot meet, rank 0 for what all find alike."""
    if meeting is not None:
        return meeting.is_first_with(f"{type(error).__name__}: {error}")
    alike = isinstance(error, AskedError) and error.exit_code == 2  # follows from flags alone
    return device.environment_of_rank()[0] == 0 or not alike


def told(error: BaseException) -> list[str]:
    """A line for each problem; the traceback of what nobody foresaw."""
    rank, world_size, _ = device.environment_of_rank()
    where = f" (rank {rank} on {node_name()})" if world_size > 1 else ""
    if isinstance(error, AskedError):
        prefix = f"[rank{rank}]: " if world_size > 1 else ""
        name = Path(sys.argv[0]).name
        return [f"{prefix}{name}: error: {problem}{where}" for problem in error.problems]
    lines = "".join(traceback.format_exception(error)).splitlines()
    return [*(f"[rank{rank}]: {line}" for line in lines[:-1]), f"[rank{rank}]: {lines[-1]}{where}"]


def _print(lines: list[str]) -> None:
    """One write, so that lines of several ranks never mix."""
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    sys.stderr.flush()
