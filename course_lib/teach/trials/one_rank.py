"""What one rank is to do for all: print; and meetings to which one rank goes alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from course_lib.teach.trials.ends import called
from course_lib.teach.trials.printed import losses
from course_lib.teach.trials.verdict import listed

if TYPE_CHECKING:
    from course_lib.teach.trials.edits import Seen

MIXED_UP = r"gloo|preamble"
"""A call of one rank has met another call of the others. (Gloo may also end the process.)"""


def waits_alone(seen: Seen) -> str:
    """A collective that some ranks call and others never do."""
    calls = seen.of("call")
    counts = [len(made) for made in calls]
    other_error = seen.error and not re.search(MIXED_UP, seen.error)
    if seen.ended or other_error or max(counts) == min(counts):
        return ""
    ahead = [rank for rank, count in enumerate(counts) if count == max(counts)]
    return (
        f"{ranks_of(ahead)} called {called(calls[ahead[0]][-1])}, number {max(counts)}, and others "
        f"only {min(counts)}. A collective is a meeting of all ranks: behind `if rank == 0:`, or "
        "where ranks decide by losses of their own, it waits for ever, or meets another call of "
        "the others, and the program breaks. Let all ranks call it, and one print what came of it."
    )


def prints(seen: Seen) -> str | None:
    lines = seen.of("line")
    for part in ("train", "validation", "test"):
        who = [rank for rank, printed in enumerate(lines) if losses(printed, part)]
        if who and who != [0]:
            return _printed_by(seen, part, who)
        if not who and part == "train":
            return "No rank printed a line `epoch 1: train loss …`." if seen.ended else None
    return ""


def _printed_by(seen: Seen, part: str, who: Sequence[int]) -> str:
    if len(who) == seen.size:
        return f"the {part} loss was printed {seen.size} times, once by every rank. `if rank == 0:`"
    places = seen.first("place") or []
    local = {place["local_rank"] for rank, place in enumerate(places) if rank in who}
    first = " (the first of each node: that is the local rank)" if local == {0} else ""
    return f"the {part} loss was printed by {ranks_of(who)}{first}; rank 0 alone is to."


def ranks_of(who: Sequence[int]) -> str:
    return f"rank {who[0]}" if len(who) == 1 else f"ranks {listed(set(who))}"
