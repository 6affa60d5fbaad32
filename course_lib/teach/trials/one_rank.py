"""What one rank is to do for all: print, and save the model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from course_lib.teach.trials.ends import called
from course_lib.teach.trials.printed import has_losses
from course_lib.teach.trials.verdict import Event, listed

if TYPE_CHECKING:
    from course_lib.teach.trials.edits import Seen

KEYS = r"Missing key\(s\) in state_dict|Unexpected key\(s\)"
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
        f"only {min(counts)}. A collective is a meeting of all ranks: behind `if rank == 0:` it "
        "waits for ever, or meets another call of the others, and the program breaks. Let all "
        "ranks call it, and one print what came of it."
    )


def prints(seen: Seen) -> str | None:
    who = [rank for rank, lines in enumerate(seen.of("line")) if has_losses(lines)]
    if who == [0]:
        return ""
    if not who:
        return "No rank printed a line `epoch 1: train loss …`." if seen.ended else None
    if len(who) == seen.size:
        return f"each line was printed {seen.size} times, once by every rank. `if rank == 0:`"
    places = seen.first("place") or []
    local = {place["local_rank"] for rank, place in enumerate(places) if rank in who}
    first = " (the first of each node: that is the local rank)" if local == {0} else ""
    return f"printed by {ranks_of(who)}{first}; rank 0 alone is to."


def ranks_of(who: Sequence[int]) -> str:
    return f"rank {who[0]}" if len(who) == 1 else f"ranks {listed(set(who))}"


def saves(seen: Seen) -> str | None:
    who = [rank for rank, events in enumerate(seen.of("saved")) if events]
    if len(who) > 1:
        return (
            f"{ranks_of(who)} write the same file at the same time. What is in it afterwards is "
            "chance: the last one's model, or pieces of several."
        )
    if not who:
        return not_saved(seen)
    if who != [0]:
        return f"{ranks_of(who)} saved; it is to be rank 0."
    saved = seen.of("saved")[0][-1]
    if any(key.startswith("module.") for key in saved["keys"]):
        return (
            "the names in the file begin with `module.`: this is the wrapped model. Nobody can "
            "load it without DistributedDataParallel. Save model.module.state_dict()."
        )
    return too_early(seen, saved)


def not_saved(seen: Seen) -> str | None:
    """Never, or not yet: who loads too early may end the program before rank 0 can save."""
    in_vain = [rank for rank, events in enumerate(seen.of("not loaded")) if events]
    if in_vain:
        return (
            f"no rank had saved the model when {ranks_of(in_vain)} loaded it. Rank 0 saves it, and "
            "dist.barrier() before loading lets all wait for rank 0."
        )
    return "no rank has saved the model." if seen.ended else None


def too_early(seen: Seen, saved: Event) -> str | None:
    if re.search(KEYS, seen.error):
        return (
            "the file has the names of the plain model, and what loads it is the wrapped one, "
            "whose names begin with `module.`: model.module.load_state_dict(…)."
        )
    loaded = [events[-1]["calls"] for events in seen.of("loaded") if events]
    if any(calls <= saved["calls"] for rank, calls in enumerate(loaded) if rank):
        return (
            "a rank loads the file before it can know that rank 0 has written it: between the two "
            "they do not meet. It finds no file, half a one, or that of an earlier epoch, as the "
            "disk is quick or slow. dist.barrier() before loading lets all wait for rank 0."
        )
    return "" if seen.ended else None
