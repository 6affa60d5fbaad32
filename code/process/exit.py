"""End of a rank: with the program's result, or at once with the reason of its failure.

Every failed rank reports with its rank and node; an error of several ranks is reported once."""

from __future__ import annotations

import atexit
import os
import re
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import NoReturn

import torch.distributed as dist

from process import device
from process.environment import environment_or_alone
from process.errors import (
    EXIT_INTERRUPTED,
    ArgumentsError,
    AskedError,
    RendezvousError,
    error_lines,
    node_name,
    say,
)
from process.peers import Peers
from process.places import answer_with_stacks, leave_flight_record
from process.rendezvous import open_store

EXIT_OUT_OF_MEMORY = 41
LONGEST_MEETING = timedelta(seconds=10)
# Messages of gloo, NCCL and the store about a peer that stopped answering.
PEER_GONE = re.compile(
    r"[Cc]onnection (?:closed|reset|refused)|[Bb]roken pipe|remote process exited|ncclRemoteError|"
    r"ncclSystemError|communicator was aborted|Timed out waiting|timed out after|Socket closed|"
    r"[Ff]ailed to recv|[Ww]atchdog caught collective operation timeout"
)
WAITED = re.compile(
    r"Timed out waiting|[Ww]atchdog caught collective operation timeout|"
    r"failed to pass monitoredBarrier"
)
# The store's messages about a failed meeting; another attempt would take as long again.
NOBODY_THERE = re.compile(r"while trying to connect|failed to connect")


def run_and_exit(main: Callable[[], int]) -> None:
    """End the process with the program's result, or at once with the reason of its failure.

    The process does not use the interpreter's normal exit: a gloo thread that frees a tensor then
    can end it with "terminate called without an active exception" after all work was done."""
    answer_with_stacks(environment_or_alone()[0], node_name())
    try:
        try:
            code = main()
        except Exception as error:
            fail(error)
        if device.PEERS:
            device.PEERS[-1].finish()
        if dist.is_initialized():
            dist.destroy_process_group()
    except KeyboardInterrupt as error:  # also if it comes during the report of another failure
        fail(error)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def fail(error: BaseException) -> NoReturn:
    """Report the failure and end this process soon, so that no rank waits longer than needed."""
    interrupted = isinstance(error, KeyboardInterrupt)
    if interrupted:  # a launcher passes on the same Control-C
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout.flush()
    out_of_memory = device.out_of_memory_line(error)
    if out_of_memory:  # each has its own sizes; printed first, as long as there is memory for it
        say([out_of_memory])
    leave_flight_record(environment_or_alone()[0])
    out_of_reach = isinstance(error, RendezvousError) or NOBODY_THERE.search(str(error))
    peers = None if out_of_reach or (interrupted and not device.PEERS) else _peers()
    if peers is not None and peers.too_late():
        os._exit(1)
    waited = WAITED.search(str(error)) is not None
    if peers is not None and waited:
        peers.gave_up()
    # A rank whose wait timed out reports at once: the others lose their connection only then.
    foreseen = isinstance(error, AskedError)
    peer_gone = not foreseen and not waited and PEER_GONE.search(str(error))
    follows = peers is not None and peer_gone and peers.follows()
    speaks = not out_of_memory and not follows and _speaks(error, peers)
    if speaks:
        say(error_lines(error, *environment_or_alone()[:2]))
    if peers is not None:
        peers.leave(speaks or bool(out_of_memory))
    if out_of_memory:
        os._exit(EXIT_OUT_OF_MEMORY)
    if interrupted:
        os._exit(EXIT_INTERRUPTED)
    os._exit(error.exit_code if isinstance(error, AskedError) else 1)


def _peers() -> Peers | None:
    """Return the ranks of this job, or None. A rank that failed before the meeting connects now."""
    rank, world_size, _ = environment_or_alone()
    if device.PEERS or world_size == 1:
        return device.PEERS[-1] if device.PEERS else None
    try:
        return Peers(open_store(rank, world_size, LONGEST_MEETING, waits=True), rank, world_size)
    except (RuntimeError, ValueError):  # ValueError: no MASTER_ADDR
        return None


def _speaks(error: BaseException, peers: Peers | None) -> bool:
    """Tell whether this rank reports: it is the first with this error. If the ranks cannot meet,
    rank 0 reports errors that all ranks share."""
    of_all = isinstance(error, ArgumentsError | KeyboardInterrupt)
    if peers is not None:
        return peers.is_first_with(f"{type(error).__name__}: {error}", names_others=not of_all)
    return not of_all or environment_or_alone()[0] == 0
