"""Requirements shared by the checks of several lessons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


def flags_are(
    check: Checklist,
    run: Any,
    wanted: Mapping[str, object],
    hints: Mapping[str, str],
    name: str = "it",
) -> None:
    """Check that the run has these flags. The first flag that differs prints its hint."""
    for flag, value in wanted.items():
        given = run.recipe.flags.get(flag, _("missing"))
        said = _("{flag} of {run} is {given}.", flag=flag, run=run.name, given=given)
        check.that(
            str(given) == str(value),
            _("{name} has {flag} {value}", name=name, flag=flag, value=value),
            hint=f"{said} {hints.get(flag, '')}".strip(),
        )


def trains_as(
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
    recipe = run.recipe
    check.that(
        (recipe.nodes, recipe.gpus_per_node) == (nodes, devices),
        _("the run had {nodes} × {devices} devices", nodes=nodes, devices=devices),
        hint=_(
            "The run had {nodes} × {gpus_per_node}: nodes × devices on each.",
            nodes=recipe.nodes,
            gpus_per_node=recipe.gpus_per_node,
        ),
    )


def is_run_of(check: Checklist, run: Any, name: str) -> None:
    """Refuse a run that does not belong to the exercise, before looking for further mistakes."""
    check.needs(
        run.name == name,
        _("this is the run of the exercise"),
        hint=_(
            "This is the run {run!r}; the recipe of the exercise is called {name!r}.",
            run=run.name,
            name=name,
        ),
    )


def global_batch(run: Any) -> int | None:
    """Return the global batch from the last iteration line; None if no line has it."""
    said = run.log.iterations["global_batch_size"].dropna()
    return int(said.iloc[-1]) if len(said) else None


def whole_flag(run: Any, name: str, otherwise: int = 0) -> int:
    """Return a flag that is a whole number; `otherwise` if the run does not have it."""
    value = run.recipe.flags.get(name)
    return int(value) if isinstance(value, str) and value.isdecimal() else otherwise


def gradient_bytes(check: Checklist, run: Any) -> int:
    """Return the bytes of the gradients of one copy of the model in this run."""
    count = check.left(run, "log").parameter_count
    check.needs(
        bool(count),
        _("the log of the run states the number of parameters"),
        hint=_(
            "{log_file} has no such line. Is it the run that the exercise asks for?",
            log_file=run.log_file,
        ),
    )
    return int(BYTES_PER_GRADIENT * count)


def copies(check: Checklist, run: Any, wanted: int = 0) -> int:
    """Return the number of ranks that average gradients. It has to be `wanted`, or at least 2."""
    data = run.log.world.data or 1
    check.unless(
        data != wanted if wanted else data < 2,
        _("the run averaged gradients"),
        hint=_(
            "Its log says: {world}. A single copy of the model exchanges no gradients, and a "
            "model that is split needs several devices for one copy.",
            world=run.log.world,
        ),
    )
    return int(data)


def batch_is(check: Checklist, run: Any, wanted: int, devices: int) -> None:
    """Check the number of samples in a step, summed over all devices."""
    batch = global_batch(run)
    over_all = _(
        "The global batch counts the samples of all devices. It is neither the batch of one "
        "device nor multiplied by the number of devices."
    )
    is_other = batch is not None and batch in (wanted * devices, wanted / devices)
    check.that(
        batch == wanted,
        _("a step counted {count} samples", count=wanted),
        hint=_("The iteration lines say {batch}.", batch=batch)
        + (f" {over_all}" if is_other else ""),
    )


def memory_of_rank_0(check: Checklist, run: Any, what: str, how: str) -> Any:
    memory = check.left(run, "memory", what, how=how)
    check.needs(
        0 in [timeline.rank for timeline in memory],
        _("{what} recorded its memory", what=what),
        hint=_("There is no memory trace of rank 0 in {folder}. {how}", folder=run.folder, how=how),
    )
    return memory[0]


def fits(check: Checklist, estimate: Any) -> None:
    """Check that the fullest device of a plan has enough memory."""
    part, size = max(estimate.fullest.parts.items(), key=lambda part: part[1])
    check.that(
        estimate.fits,
        _("the plan fits into the memory of a device"),
        hint=_(
            "The fullest device needs {device_gib:.1f} of {capacity_gib:.1f} GiB, and the "
            "largest part is {part} ({size:.1f} GiB). Would tensor, pipeline, ZeRO or "
            "recomputation make this part smaller?",
            device_gib=estimate.device_gib,
            capacity_gib=estimate.capacity_gib,
            part=part,
            size=size / 2**30,
        ),
    )
