"""What a rank says of a failure: lines with its rank and node, in one write."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import socket
import sys
import traceback
from pathlib import Path

from process.errors import AskedError

MOST_COUNTED = 12
SAID: list[socket.socket] = []
"""Held until this process ends."""


def node_name() -> str:
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def told(error: BaseException, rank: int, world_size: int) -> list[str]:
    """A line for each problem; the traceback of what nobody foresaw."""
    where = f" (rank {rank} on {node_name()})" if world_size > 1 else ""
    if problems := _problems(error):
        prefix = f"[rank{rank}]: " if world_size > 1 else ""
        name = Path(sys.argv[0]).name
        return [f"{prefix}{name}: error: {printable(problem)}{where}" for problem in problems]
    lines = "".join(traceback.format_exception(error)).splitlines()
    return [*(f"[rank{rank}]: {line}" for line in lines[:-1]), f"[rank{rank}]: {lines[-1]}{where}"]


def _problems(error: BaseException) -> list[str]:
    if isinstance(error, AskedError):
        return error.problems
    if isinstance(error, BrokenPipeError):  # as in `... | head`; the libraries say it otherwise
        return ["nobody reads what is printed any more, so training ends; print to a file"]
    if isinstance(error, OSError) and error.filename is not None:
        # What the system says of a file is no bug of ours: which file, and why, is all there is to
        # know. The place tells what it was wanted for.
        return [f"{type(error).__name__}: {error}{_place(error)}"]
    return []


def _place(error: BaseException) -> str:
    """Where in these programs it happened."""
    home = str(Path(__file__).resolve().parents[1])
    calls = traceback.extract_tb(error.__traceback__)
    ours = [call for call in calls if call.filename.startswith(home)]
    if not ours:
        return ""
    last = ours[-1]
    return f" (at {os.path.relpath(last.filename, home)}:{last.lineno})"


def printable(text: str) -> str:
    """One line, whatever was typed: what a terminal would obey, or not know, is spelt out."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def say(lines: list[str]) -> None:
    """One write, so that lines of several ranks never mix."""
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    sys.stderr.flush()


def cause_of(text: str) -> str:
    """Equal where the cause is one: addresses, ports and ranks differ by their numbers."""
    return hashlib.sha256(re.sub(r"\d+", "#", text).encode()).hexdigest()


def counted(ranks: list[int]) -> str:
    """`rank 2`, `ranks 0, 1 and 3`, `ranks 0, 1, 2, … and 1012 more`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    more = len(ranks) - MOST_COUNTED
    shown = ranks[:MOST_COUNTED] if more > 0 else ranks[:-1]
    last = f"{more} more" if more > 0 else str(ranks[-1])
    return f"ranks {', '.join(map(str, shown))} and {last}"


def first_on_node(text: str) -> bool:
    """Whether no other rank of this job on this node has said so: a name that one process can have,
    and that goes with it. True where there are no such names."""
    job = [os.environ.get(name) for name in ("MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID")]
    told_here = f"{os.getuid()} {job} {cause_of(text)}"
    held = socket.socket(socket.AF_UNIX)
    try:
        held.bind(f"\0course-said-{hashlib.sha256(told_here.encode()).hexdigest()}")
    except OSError as error:
        held.close()
        return error.errno != errno.EADDRINUSE
    SAID.append(held)
    return True
