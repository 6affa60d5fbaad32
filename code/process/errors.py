"""Mistakes in what was asked, and how a rank tells of any failure: lines with its rank and node, in
one write. A mistake takes one sentence, without a traceback.
"""

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
# Of C++, in an error's text: nobody can do anything about them.
FRAMES = re.compile(
    r"^(?:Exception raised from |frame #\d|<omitting python|C\+\+ CapturedTr|#\d+ .* from ).*\n?",
    re.MULTILINE,
)
EXIT_INTERRUPTED = 128 + signal.SIGINT


class AskedError(ValueError):
    """The message says what was asked, what is allowed, and what to do next."""

    exit_code = 1

    @property
    def problems(self) -> list[str]:
        """One line each."""
        return [str(self)]


class ArgumentsError(AskedError):
    """Flags that cannot be as they are: all of them at once."""

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.found = list(problems)

    @property
    def problems(self) -> list[str]:
        return self.found


class LayoutError(ArgumentsError):
    """A layout that does not fit the devices, the model or the batch."""


class SurroundingsError(AskedError):
    """Variables of a launcher or a job script that are wrong; other ranks may have better ones."""

    exit_code = 2


class RendezvousError(SurroundingsError):
    """No way leads to the other ranks: to try it again would take as long again."""


class DataError(AskedError):
    """Data that is missing, damaged, or too little."""


class DivergedError(AskedError):
    """Training that has left the range of its numbers: going on would only cost time."""


class MissingRankError(AskedError):
    """Ranks that did not come to where all were to meet."""

    def __init__(self, ranks: Sequence[int], where: str) -> None:
        who = f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
        super().__init__(
            f"{who} did not come to the meeting point {where}: told another MASTER_ADDR or "
            "MASTER_PORT, unable to resolve or reach it, or ended before; their own lines say which"
        )


class LostRankError(AskedError):
    """Ranks that ended without a word, told by the one that watched them."""

    def __init__(self, lost: Sequence[str]) -> None:
        super().__init__(
            f"lost {', then '.join(lost)}: ended without a word, such as a process that was "
            "killed, for memory or by a signal, or a node that is gone; `sacct -j <job>` and the "
            "node's own log may say why, and --load continues from the last checkpoint"
        )


def node_name() -> str:
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def error_lines(error: BaseException, rank: int, world_size: int) -> list[str]:
    """A line for each problem; the traceback of what nobody foresaw."""
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
    if isinstance(error, BrokenPipeError):  # as in `... | head`; the libraries say it otherwise
        return ["nobody reads what is printed any more, so training ends; print to a file"]
    if isinstance(error, OSError) and error.filename is not None:
        # What the system says of a file is no bug of ours: which file, and why, is all there is to
        # know. The place tells what it was wanted for.
        return [f"{type(error).__name__}: {error}{_place(error)}"]
    return []


def _place(error: BaseException) -> str:
    """Place in these programs where it happened."""
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


def run_alone(main: Callable[[], int]) -> NoReturn:
    """Runs a program without torch and other ranks (else: exit.py)."""
    try:
        code = main()
    except (AskedError, OSError, KeyboardInterrupt) as error:
        say(error_lines(error, 0, 1))
        interrupted = isinstance(error, KeyboardInterrupt)
        code = EXIT_INTERRUPTED if interrupted else getattr(error, "exit_code", 1)
    sys.exit(code)


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
