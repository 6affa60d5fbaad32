"""Judge which rank saves which model, and whether all ranks test with it."""

from __future__ import annotations

import re
from statistics import fmean

from course_lib.teach.trials.verdict import Event, Seen, ranks_of
from course_lib.words import _

KEYS = r"Missing key\(s\) in state_dict|Unexpected key\(s\)"
# Relative tolerance for the norm of all weights. Two epochs differ by more, and a file in half
# precision by less.
SAME = 5e-5


def judge(seen: Seen) -> str | None:
    who = [rank for rank, events in enumerate(seen.of("saved")) if events]
    if len(who) > 1:
        return _(
            "{who} save the model, at the same time into one file or into many equal files. It "
            "is enough if rank 0 saves.", who=ranks_of(who),
        )  # fmt: skip
    if not who:
        return _not_saved(seen)
    if who != [0]:
        return _("{who} saved, but rank 0 has to save.", who=ranks_of(who))
    saved = _last_saved(seen)
    said = _other_than_the_model(saved) or _too_early(seen, saved)
    if said or said is None:
        return said
    return _not_the_best(seen, saved) or _tested(seen, saved)


def _last_saved(seen: Seen) -> Event:
    """Return the last save of the file that the program loads later; it may write others."""
    saves = seen.of("saved")[0]
    files = {event["file"] for events in seen.of("loaded") for event in events}
    return ([event for event in saves if event["file"] in files] or saves)[-1]


def _not_saved(seen: Seen) -> str | None:
    """Explain that no rank saved, or that a rank loaded before rank 0 could save."""
    in_vain = [rank for rank, events in enumerate(seen.of("not loaded")) if events]
    if in_vain:
        return _(
            "no rank had saved the model when {in_vain} loaded it. Call dist.barrier() before "
            "loading.",
            in_vain=ranks_of(in_vain),
        )
    return _("no rank has saved the model.") if seen.ended else None


def _other_than_the_model(saved: Event) -> str:
    is_wrapped = any(key.startswith("module.") for key in saved["keys"])
    if is_wrapped or saved["what"] == "DistributedDataParallel":
        return _(
            "the wrapped model is in the file, whose names begin with `module.`. Save "
            "model.module.state_dict()."
        )
    if saved["weights"] is None:
        there = ", ".join(saved["keys"][:4]) or saved["what"]
        return _("the model's weights are not in the file. It holds: {there}.", there=there)
    return ""


def _too_early(seen: Seen, saved: Event) -> str | None:
    if re.search(KEYS, seen.error):
        return _(
            "the file has the names of the plain model. Load it by model.module.load_state_dict(…)."
        )
    for rank, events in enumerate(seen.of("loaded")):
        if rank and events and not _knows(seen, rank, events[-1], saved):
            return _(
                "rank {rank} may load the file before rank 0 has written it. Call dist.barrier() "
                "before loading.",
                rank=rank,
            )
    return "" if seen.ended else None


def _knows(seen: Seen, rank: int, loaded: Event, saved: Event) -> bool:
    """Return whether this rank is sure to load only after rank 0 has saved."""
    lines = seen.lines[0]
    behind = lines[lines.index(saved) + 1 :]
    until = next((n for n, event in enumerate(behind) if event["event"] == "epoch"), len(behind))
    trains_on = any(event["event"] == "epoch" and event["part"] == "train" for event in behind)
    if trains_on and any(event["event"] == "call" for event in behind[:until]):
        return True  # all ranks meet after each save
    latest = saved["calls"]
    begun = [event for event in lines if event["event"] == "epoch" and event["part"] == "train"]
    before = [event for event in begun if lines.index(event) < lines.index(saved)]
    if trains_on and before:
        latest = begun[-1]["met"] + saved["calls"] - before[-1]["met"]
    return bool(loaded["calls"] > latest)


def _not_the_best(seen: Seen, saved: Event) -> str:
    epochs = seen.of("epoch", "validation")
    trained = [event["weights"] for event in seen.of("epoch", "train")[0]]
    by_rank = [[fmean(event["losses"]) for event in events if event["losses"]] for events in epochs]
    means = [fmean(values) for values in zip(*by_rank, strict=False)]
    if not means or len(trained) < len(means):
        return ""
    best = means.index(min(means))
    held = [n for n, weights in enumerate(trained) if _same(weights, saved["weights"])]
    if best in held:
        return ""
    return _(
        "{value} is in the file, but the best model is the model of epoch {best}. Validation "
        "losses over all ranks: {told}. Rank 0's own losses are {own}.",
        value=_("the model of epoch {held}", held=held[0] + 1) if held else _("another model"),
        best=best + 1,
        told=", ".join(f"{value:.2f}" for value in means),
        own=", ".join(f"{value:.2f}" for value in by_rank[0]),
    )


def _tested(seen: Seen, saved: Event) -> str:
    found = seen.first("epoch", "test")
    if found is None or not all("tested" in event for event in found):
        return ""
    wrong = [
        rank for rank, event in enumerate(found) if not _same(event["tested"], saved["weights"])
    ]
    if wrong:
        return _("{wrong} test with weights that differ from the file.", wrong=ranks_of(wrong))
    return ""


def _same(one: float, other: float) -> bool:
    return abs(one - other) <= SAME * max(one, other)
