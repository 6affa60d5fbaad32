"""Errors in the user's request, and messages for any failure: lines with rank and node, written at
once. An error in the request takes one sentence, without a traceback."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

MOST_COUNTED = 12
# C++ frames in an error's text, which do not help the user.
FRAMES = re.compile(
    r"^(?:Exception raised from |frame #\d|<omitting python|C\+\+ CapturedTr|#\d+ .* from ).*\n?",
    re.MULTILINE,
)
EXIT_INTERRUPTED = 128 + signal.SIGINT


class AskedError(ValueError):
    """Error whose message says what was asked, what is allowed, and what to do next."""

    exit_code = 1

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)  # one line each


class ArgumentsError(AskedError):
    """All problems of the flags together."""

    exit_code = 2


class LayoutError(ArgumentsError):
    """Layout that does not fit the devices, the model or the batch."""


class SurroundingsError(AskedError):
    """Error: wrong variables of a launcher or a job script; other ranks may be correct."""

    exit_code = 2


class RendezvousError(SurroundingsError):
    """Failure to reach the other ranks; another attempt would take as long again."""


class DataError(AskedError):
    """Missing, damaged or insufficient data."""


class DivergedError(AskedError):
    """Error: the numbers of the training are out of range, so continuing would waste time."""


class MissingRankError(AskedError):
    """Ranks that did not arrive at the meeting point."""

    def __init__(self, ranks: Sequence[int], where: str) -> None:
        who = f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
        super().__init__(
            f"{who} did not come to the meeting point {where}: a different MASTER_ADDR or "
            "MASTER_PORT, a name or network that does not work, or an earlier end; see their lines"
        )


class LostRankError(AskedError):
    """Ranks that ended without a message, reported by the rank that watched them."""

    def __init__(self, lost: Sequence[str]) -> None:
        super().__init__(
            f"lost {', then '.join(lost)}: ended without a word. The process was killed (out of "
            "memory, or by a signal), or its node failed; `sacct -j <job>` and the node's log may "
            "say why. --load continues from the last checkpoint"
        )


def node_name() -> str:
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def error_lines(error: BaseException, rank: int, world_size: int) -> list[str]:
    """Return a line for each problem, or the traceback of an unexpected error."""
    where = f" (rank {rank} on {node_name()})" if world_size > 1 else ""
    if problems := _problems(error):
        prefix = f"[rank{rank}]: " if world_size > 1 else ""
        name = Path(sys.argv[0]).name
        texts = [printable(FRAMES.sub("", problem).rstrip()) for problem in problems]
        return [f"{prefix}{name}: error: {text}{where}" for text in texts]
    lines = FRAMES.sub("", "".join(traceback.format_exception(error))).rstrip().splitlines()
    return [*(f"[rank{rank}]: {line}" for line in lines[:-1]), f"[rank{rank}]: {lines[-1]}{where}"]


def _problems(error: BaseException) -> list[str]:
    if isinstance(error, AskedError):
        return error.problems
    if isinstance(error, KeyboardInterrupt):
        return ["KeyboardInterrupt: ended by Control-C"]
    if isinstance(error, BrokenPipeError):  # as in `... | head`; libraries word it differently
        return ["training ends because nothing reads its output any more; print to a file"]
    if isinstance(error, OSError) and error.filename is not None:
        # A system error about a file is no bug in this program: file and reason are enough.
        return [f"{type(error).__name__}: {error}"]
    return []


def printable(text: str) -> str:
    """Return the text on one line, with control and unknown characters escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def run_alone(main: Callable[[], int]) -> NoReturn:
    """Run a program without torch and other ranks (other programs use exit.py)."""
    try:
        code = main()
    except (AskedError, OSError, KeyboardInterrupt) as error:
        say(error_lines(error, 0, 1))
        interrupted = isinstance(error, KeyboardInterrupt)
        code = EXIT_INTERRUPTED if interrupted else getattr(error, "exit_code", 1)
    sys.exit(code)


def say(lines: list[str]) -> None:
    """Write all lines at once, so that lines of several ranks never mix."""
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    sys.stderr.flush()


def cause_of(text: str) -> str:
    """Return a digest that is equal for equal causes: numbers in addresses, ports and ranks
    differ."""
    return hashlib.sha256(re.sub(r"\d+", "#", text).encode()).hexdigest()


def counted(ranks: list[int]) -> str:
    """Return `rank 2`, `ranks 0, 1 and 3` or `ranks 0, 1, 2, … and 1012 more`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    more = len(ranks) - MOST_COUNTED
    shown = ranks[:MOST_COUNTED] if more > 0 else ranks[:-1]
    last = f"{more} more" if more > 0 else str(ranks[-1])
    return f"ranks {', '.join(map(str, shown))} and {last}"
