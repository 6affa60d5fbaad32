"""What launchers and job scripts export for a rank: who it is, where the ranks meet, its numbers.

A variable that is wrong is as much a part of the command line as a flag, and is refused like one:
`int("abc")` would end in a traceback, and a rank that is told its number but not how many there are
would train alone, beside others that do the same.
"""

from __future__ import annotations

import math
import os
import socket
import time

from process.errors import MeetingPointError, SurroundingsError

TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
SLURM = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID")
MEETING_POINT = ("MASTER_ADDR", "MASTER_PORT")
LAST_PORT = 65535
RESOLVED_WITHIN_S = 10.0
"""When a job starts on many nodes at once, a name server may not answer the first time."""


def environment_of_rank() -> tuple[int, int, int]:
    """Rank, world size and local rank, as torchrun or srun says; alone otherwise."""
    for names in (TORCHRUN, SLURM):
        if all(name in os.environ for name in names):
            return _checked(names)
    there = [name for name in TORCHRUN if name in os.environ]
    if there:
        missing = [name for name in TORCHRUN if name not in there]
        said = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set"
        raise SurroundingsError(
            f"{said}, and {' and '.join(there)} {'is' if len(there) == 1 else 'are'}; export all "
            "three in each task (torchrun does it), or none where there is one rank"
        )
    return 0, 1, 0


def environment_or_alone() -> tuple[int, int, int]:
    """For who tells of an error, which may be that nobody knows."""
    try:
        return environment_of_rank()
    except SurroundingsError:
        return 0, 1, 0


def whole_number(name: str, least: int, most: int = 2**62) -> int | None:
    """Of an environment variable; None where it is not set, or empty."""
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        end = "" if most == 2**62 else f" and at most {most}"
        raise SurroundingsError(
            f"{name}={text[:40]}: export a whole number of at least {least}{end}"
        )
    return value


def check_meeting_point() -> None:
    """Several ranks find each other at one address, which each of them must have been told."""
    missing = [name for name in MEETING_POINT if not os.environ.get(name)]
    if missing:
        raise SurroundingsError(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set, where "
            f"{environment_or_alone()[1]} ranks are to meet; export MASTER_ADDR, the first node, "
            "and MASTER_PORT, a free port, in each task (torchrun does it)"
        )
    whole_number("MASTER_PORT", 0, LAST_PORT)


def check_name(within_s: float) -> None:
    """Of the meeting point. The store would try a wrong name until its time-out."""
    name, began = os.environ["MASTER_ADDR"], time.monotonic()
    while True:
        try:
            socket.getaddrinfo(name, None)
            return
        except (OSError, UnicodeError) as error:  # UnicodeError: no name can be so long
            told = getattr(error, "strerror", None) or str(error)
        if time.monotonic() - began > min(within_s, RESOLVED_WITHIN_S):
            raise MeetingPointError(
                f"MASTER_ADDR={name[:100]} is no name or address that this node knows ({told}); "
                "export that of the first node, without a port, as `scontrol show hostnames | "
                "head -n 1` prints it in a job; `getent hosts <name>` says whether a node knows it"
            )
        time.sleep(0.5)


def check_libraries(backend: str) -> None:
    """Variables that torch answers with a screen of addresses, or that would be passed over."""
    whole_number("TORCH_FR_BUFFER_SIZE", 0)
    pace = os.environ.get("COURSE_DEVICE_PACE", "").strip()
    if pace and not _is_factor(pace):  # pace.py would keep none, and the times would be others
        raise SurroundingsError(f"COURSE_DEVICE_PACE={pace[:40]}: export a number such as 3")
    wanted = os.environ.get("GLOO_SOCKET_IFNAME", "")
    there = [name for _, name in socket.if_nameindex()]
    missing = [name for name in wanted.split(",") if name and name not in there]
    if missing and "gloo" in backend:
        raise SurroundingsError(
            f"no interface found for GLOO_SOCKET_IFNAME={wanted[:100]}: this node has "
            f"{', '.join(there[:20])}; export one of these, or unset it"
        )


def _is_factor(text: str) -> bool:
    try:
        return 0 <= float(text) < math.inf
    except ValueError:
        return False


def _checked(names: tuple[str, str, str]) -> tuple[int, int, int]:
    rank_name, size_name, _ = names
    numbers = []
    for name, least in zip(names, (0, 1, 0), strict=True):
        number = whole_number(name, least)
        if number is None:
            raise SurroundingsError(f"{name} is empty; export a whole number, or unset it")
        numbers.append(number)
    rank, world_size, local_rank = numbers
    if rank >= world_size:
        raise SurroundingsError(
            f"{rank_name}={rank} of {size_name}={world_size}: ranks count from 0, so the last of "
            f"{world_size} is {world_size - 1}"
        )
    return rank, world_size, local_rank
