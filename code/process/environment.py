"""Environment variables of a rank from launchers and job scripts: its identity and its numbers.

A wrong variable is an error like a wrong flag, with a message: `int("abc")` would end in a
traceback. A rank that knows its number but not the number of ranks would train alone, next to other
ranks that do the same."""

from __future__ import annotations

import os
import socket

from process.errors import SurroundingsError

TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
SLURM = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID")


def environment_of_rank() -> tuple[int, int, int]:
    """Return rank, world size and local rank from torchrun or srun, or of a single rank."""
    for names in (TORCHRUN, SLURM):
        if all(name in os.environ for name in names):
            return _checked(names)
    there = [name for name in TORCHRUN if name in os.environ]
    if there:
        missing = [name for name in TORCHRUN if name not in there]
        said = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set"
        raise SurroundingsError(
            f"{said}, and {' and '.join(there)} {'is' if len(there) == 1 else 'are'}; export all "
            "three in each task (torchrun does it), or none for a single rank"
        )
    return 0, 1, 0


def environment_or_alone() -> tuple[int, int, int]:
    """Return the environment for an error message. Wrong variables count as a single rank."""
    try:
        return environment_of_rank()
    except SurroundingsError:
        return 0, 1, 0


def whole_number(name: str, least: int, most: int = 2**62) -> int | None:
    """Return the number in an environment variable; None if it is unset or empty."""
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


def check_interface() -> None:
    """Check the interface's name, because gloo's message fills a screen with addresses."""
    wanted = os.environ.get("GLOO_SOCKET_IFNAME", "")
    there = [name for _, name in socket.if_nameindex()]
    if any(name and name not in there for name in wanted.split(",")):
        raise SurroundingsError(
            f"no interface found for GLOO_SOCKET_IFNAME={wanted[:100]}: this node has "
            f"{', '.join(there[:20])}; export one of these, or unset it"
        )


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
