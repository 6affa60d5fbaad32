"""What a rank says of a failure: lines with its rank and node, in one write."""

from __future__ import annotations

import os
import socket
import sys
import traceback
from pathlib import Path

from process.errors import AskedError


def node_name() -> str:
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def told(error: BaseException, rank: int, world_size: int) -> list[str]:
    """A line for each problem; the traceback of what nobody foresaw."""
    where = f" (rank {rank} on {node_name()})" if world_size > 1 else ""
    if isinstance(error, AskedError):
        prefix = f"[rank{rank}]: " if world_size > 1 else ""
        name = Path(sys.argv[0]).name
        return [f"{prefix}{name}: error: {problem}{where}" for problem in error.problems]
    lines = "".join(traceback.format_exception(error)).splitlines()
    return [*(f"[rank{rank}]: {line}" for line in lines[:-1]), f"[rank{rank}]: {lines[-1]}{where}"]


def say(lines: list[str]) -> None:
    """One write, so that lines of several ranks never mix."""
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    sys.stderr.flush()
