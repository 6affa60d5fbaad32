"""Requirements shared by the checks of several lessons."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from course_lib.lab.job.recipe import Recipe
from course_lib.teach.checklist import Checklist
from course_lib.words import _

BYTES_PER_GRADIENT = 4
MIB = 2**20
# Flags for recording, length, saving, seed and rate. They change neither peak nor step time.
MAY_DIFFER = (
    "--profile", "--use-pytorch-profiler", "--profile-step-start", "--profile-step-end",
    "--profile-ranks", "--record-memory-history", "--log-interval", "--log-memory-interval",
    "--train-iters", "--save", "--save-interval", "--seed", "--lr",
)  # fmt: skip


def same_training(
    check: Checklist, mine: Recipe, other: Recipe, name: str, but: Iterable[str] = ()
) -> None:
    """Check that two recipes differ only in `but` and in flags that leave results comparable."""
    changed = [
        flag
        for flag in sorted({*mine.flags, *other.flags} - {*MAY_DIFFER, *but})
        if mine.flags.get(flag) != other.flags.get(flag)
    ]
    if (mine.nodes, mine.gpus_per_node) != (other.nodes, other.gpus_per_node):
        changed.append(_("the devices"))
    check.that(
        not changed,
        _("the run trains the same model as {name}", name=name),
        hint=_(
            "These flags differ: {flags}. The exercise asks for fewer changes. Compare the two "
            "recipes.",
            flags=", ".join(changed),
        ),
    )


def has_devices(check: Checklist, run: Any, nodes: int, devices: int) -> None:
    found = f"{run.recipe.nodes} × {run.recipe.gpus_per_node}"
    check.equal(found, f"{nodes} × {devices}", _("nodes × devices on each"))


def global_batch(run: Any) -> int | None:
    """Return the global batch from the last iteration line; None if no line has it."""
    said = run.log.iterations["global_batch_size"].dropna()
    return int(said.iloc[-1]) if len(said) else None


def whole_flag(run: Any, name: str, otherwise: int = 0) -> int:
    """Return a flag that is a whole number; `otherwise` if the run does not have it."""
    value = run.recipe.flags.get(name)
    return int(value) if isinstance(value, str) and value.isdecimal() else otherwise


def batch_is(check: Checklist, run: Any, wanted: int) -> None:
    """Check the number of samples in a step, summed over all devices."""
    over_all = _(
        "The global batch counts the samples of all devices. It is neither the batch of one "
        "device nor multiplied by the number of devices."
    )
    check.equal(global_batch(run), wanted, _("samples in a step, by the log"), hint=over_all)


def memory_of_rank_0(check: Checklist, run: Any, what: str, how: str) -> Any:
    memory = check.left(run, "memory", what, how=how)
    check.needs(
        0 in [timeline.rank for timeline in memory],
        _("{what} recorded its memory", what=what),
        hint=_("There is no memory trace of rank 0 in {folder}. {how}", folder=run.folder, how=how),
    )
    return memory[0]
