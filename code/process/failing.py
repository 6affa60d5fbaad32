"""How a rank ends: with the program's result, or at once with the reason of its failure.

Every rank that fails says so, with its rank and node; what several found alike is said once.
"""

from __future__ import annotations

import atexit
import io
import os
import re
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import NoReturn

import torch.distributed as dist

from process import device
from process.environment import environment_or_alone
from process.errors import ArgumentsError, AskedError, MeetingPointError, SurroundingsError
from process.meeting import LINGER_S, Meeting
from process.meeting_point import open_store
from process.places import answer_with_stacks, leave_flight_record
from process.telling import SAID, first_on_node, node_name, say, told

EXIT_OUT_OF_MEMORY = 41
LONGEST_MEETING = timedelta(seconds=10)
PEER_GONE = re.compile(
    r"[Cc]onnection (?:closed|reset|refused)|[Bb]roken pipe|remote process exited|ncclRemoteError|"
    r"ncclSystemError|communicator was aborted|Timed out waiting|timed out after|Socket closed|"
    r"[Ff]ailed to recv|[Ww]atchdog caught collective operation timeout"
)
"""How gloo, NCCL and the store say that somebody stopped answering."""
WAITED = re.compile(
    r"Timed out waiting|[Ww]atchdog caught collective operation timeout|"
    r"failed to pass monitoredBarrier"
)
NOBODY_THERE = re.compile(r"while trying to connect|failed to connect")
"""The store's words where ranks were to meet. To try that again would take as long again."""


def run_and_exit(main: Callable[[], int]) -> None:
    """Ends the process with the program's result, or at once with the reason of its failure.

    The end is not the interpreter's own: a thread of gloo that lets go of a tensor meanwhile can
    end the process with "terminate called without an active exception", after all work was done.
    """
    answer_with_stacks(environment_or_alone()[0], node_name())
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal may not know a letter of a path
        sys.stdout.reconfigure(errors="backslashreplace")
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
        say([out_of_memory])
    leave_flight_record(environment_or_alone()[0])
    meeting = None if _out_of_reach(error) else _meet()
    if meeting is not None and meeting.too_late():
        os._exit(1)
    foreseen = isinstance(error, AskedError)
    waited = WAITED.search(str(error)) is not None
    if meeting is not None and waited:
        meeting.gave_up()
    # Who has waited in vain speaks at once: others lose their connection to it, and that follows.
    peer_gone = not foreseen and not waited and PEER_GONE.search(str(error))
    follows = meeting is not None and peer_gone and meeting.follows()
    speaks = not out_of_memory and not follows and _speaks(error, meeting)
    if speaks:
        say(told(error, *environment_or_alone()[:2]))
    if meeting is not None:
        meeting.leave(speaks or bool(out_of_memory))
    elif SAID:
        time.sleep(LINGER_S)  # as long as this process is there, others of its node need not speak
    if out_of_memory:
        os._exit(EXIT_OUT_OF_MEMORY)
    os._exit(error.exit_code if isinstance(error, AskedError) else 1)


def _meet() -> Meeting | None:
    """The ranks of this job; those that fail before they met do so now. None: nobody answers."""
    rank, world_size, _ = environment_or_alone()
    if device.MEETINGS or world_size == 1:
        return device.MEETINGS[-1] if device.MEETINGS else None
    try:
        return Meeting(open_store(rank, world_size, LONGEST_MEETING, waits=True), rank, world_size)
    except (RuntimeError, ValueError):  # ValueError: no MASTER_ADDR
        return None


def _out_of_reach(error: BaseException) -> bool:
    return isinstance(error, MeetingPointError) or NOBODY_THERE.search(str(error)) is not None


def _speaks(error: BaseException, meeting: Meeting | None) -> bool:
    """The first that has this error; where ranks cannot meet, rank 0 for what follows from flags
    alone, and the first of each node for what a node was told."""
    if meeting is not None:
        of_flags = isinstance(error, ArgumentsError)  # which all ranks have, as everybody knows
        return meeting.is_first_with(f"{type(error).__name__}: {error}", names_others=not of_flags)
    rank, size, _ = environment_or_alone()
    if size > 1 and isinstance(error, SurroundingsError):
        return first_on_node(str(error))
    return rank == 0 or not isinstance(error, ArgumentsError)
