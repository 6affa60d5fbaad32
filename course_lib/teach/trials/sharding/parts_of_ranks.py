"""What trials of sharding have in common: sums that lack a part, rows that end too early."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.teach.trials.verdict import Event

NEAR = 1e-3
GATHERS = ("all_gather", "all_gather_single", "all_gather_into_tensor", "broadcast")
DIGITS_OF_FLOAT32, DIGITS_OF_BF16 = range(6, 10), range(2, 4)
"""How many are right of a result that went through it."""


def rounded(event: Event) -> str:
    digits = event.get("digits", 0)
    if digits in DIGITS_OF_FLOAT32:
        return (
            f"the numbers are right to some {digits} digits: on their way they went through "
            "float32. Buffers have the type of what they hold: torch.empty_like."
        )
    if digits in DIGITS_OF_BF16:
        return (
            f"the numbers are right to {digits} digits: on their way they went through bf16 or "
            "float16. Here they are to stay float64."
        )
    return ""


def are_the_last(places: set[int], numbers: int, size: int) -> bool:
    return 0 < len(places) < size and min(places) == numbers - len(places)


def why_tail(places: set[int], numbers: int, size: int) -> str:
    some = f"the last {len(places)}" if len(places) > 1 else "the last one"
    return (
        f"only {some} of {numbers} numbers went wrong: {size} ranks do not divide {numbers}. Fill "
        "the row up with zeros to a multiple (round up, not down), and leave them out afterwards."
    )


def why_times(shares: Sequence[float], size: int) -> str:
    if max(shares) - min(shares) > NEAR:
        table = ", ".join(f"{share + 0:g} × rank {r}" for r, share in enumerate(shares))
        return f"they hold {table}; the mean holds {1 / size:g} of each."
    if abs(shares[0] - 1) < NEAR:
        return "this is the sum over the ranks, not the mean: divide by the number of ranks."
    if abs(shares[0] - 1 / size**2) < NEAR:
        return f"they were divided by {size} twice: once is the mean."
    return f"they are {shares[0] * size:g} times the mean."
