"""Environment variables of a rank from launchers and job scripts: its identity and its numbers.

A wrong variable is an error like a wrong flag, with a message: `int("abc")` would end in a
traceback. A rank that knows its number but not the number of ranks would train alone, next to other
ranks that do the same."""

from __future__ import annotations

import os

from process.errors import SurroundingsError

TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
SLURM = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID")


def environment_of_rank() -> tuple[int, int, int]:
    """Return rank, world size and local rank from torchrun or srun, or of a single rank."""
    for names in (TORCHRUN, SLURM):
        if all(os.environ.get(name) for name in names):
            return _checked(names)
    missing = [name for name in TORCHRUN if not os.environ.get(name)]
    if len(missing) < len(TORCHRUN):
        raise SurroundingsError(
            f"{missing[0]} is not set; export {', '.join(TORCHRUN)} in each task (torchrun does "
            "it), or none of them for a single rank"
        )
    return 0, 1, 0


def environment_or_alone() -> tuple[int, int, int]:
    """Return the environment for an error message. Wrong variables count as a single rank."""
    try:
        return environment_of_rank()
    except SurroundingsError:
        return 0, 1, 0


def threads() -> int:
    """Return OMP_NUM_THREADS, or 1. It may list one number per nesting level: the first counts."""
    return whole_number("OMP_NUM_THREADS", 1, 4096, is_list=True) or 1


def whole_number(name: str, least: int, most: int = 2**62, *, is_list: bool = False) -> int | None:
    """Return the number in an environment variable; None if it is unset or empty."""
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    try:
        value = int(text.partition(",")[0] if is_list else text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        end = "" if most == 2**62 else f" and at most {most}"
        raise SurroundingsError(
            f"{name}={text[:40]}: export a whole number of at least {least}{end}"
        )
    return value


def _checked(names: tuple[str, str, str]) -> tuple[int, int, int]:
    rank_name, size_name, local_name = names
    rank, local_rank = (whole_number(name, 0) or 0 for name in (rank_name, local_name))
    world_size = whole_number(size_name, 1) or 1
    if rank >= world_size:
        raise SurroundingsError(
            f"{rank_name}={rank} of {size_name}={world_size}: ranks count from 0, so the last of "
            f"{world_size} is {world_size - 1}"
        )
    return rank, world_size, local_rank
