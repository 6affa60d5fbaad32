"""Blind cases: runs with one fault that neither their name nor their script reveals."""

from __future__ import annotations

import base64
import random
import zlib
from dataclasses import dataclass
from typing import Any

from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes import fault
from course_lib.lab.job.recipes.fault import KINDS
from course_lib.lab.job.unfinished import Unfinished
from course_lib.plan.checks import whole_number

SEALED = "sealed-"
FLAG = "--planted-fault"
# Coprime to the number of kinds: neighbouring seeds differ, and every kind occurs.
STRIDE = 5
# Settings that some kinds need. All kinds get them, so that they do not reveal the kind.
ALIKE: dict[str, Any] = {
    "iterations": 16, "device_memory_gib": 0.2, "hidden_dropout": 0.1,
    **fault.WAITS,
}  # fmt: skip
# Kind -> lowest rank that may have it. On the first node, `localhost` is the right master.
LOWEST = {"wrong-master": 2}


@dataclass(frozen=True)
class BlindCase:
    kind: str
    rank: int
    iteration: int

    @property
    def text(self) -> str:
        return f"{self.kind}:{self.rank}:{self.iteration}"


def case_of(seed: Any) -> BlindCase:
    number = whole_number("seed", seed, 0)
    kind = KINDS[(number * STRIDE + 3) % len(KINDS)]
    drawn = random.Random(f"mystery {number}")
    rank, iteration = drawn.randint(1, 3), drawn.randint(4, 7)
    return BlindCase(kind, max(rank, LOWEST.get(kind, 1)), iteration)


def mystery(seed: Any) -> Recipe | Unfinished:
    if seed is ...:
        return Unfinished("mystery", ("seed",))
    sealed = seal(case_of(seed).text)
    return fault.recipe(f"mystery-{seed}", planted_fault=sealed, **ALIKE)


def seal(text: str) -> str:
    """Encode a fault. The program decodes it (code/faults/plant.py)."""
    return (
        SEALED + base64.b32encode(zlib.compress(text.encode())[::-1]).decode().rstrip("=").lower()
    )


def opened(recipe: Recipe) -> BlindCase | None:
    """Return the sealed case in a recipe, or None if the recipe has no sealed case."""
    sealed = str(recipe.flags.get(FLAG, ""))
    if not sealed.startswith(SEALED):
        return None
    letters = sealed.removeprefix(SEALED).upper()
    try:
        folded = base64.b32decode(letters + "=" * (-len(letters) % 8))
        kind, rank, iteration = zlib.decompress(folded[::-1]).decode().split(":")
        return BlindCase(kind, int(rank), int(iteration))
    except (ValueError, zlib.error):
        return None
