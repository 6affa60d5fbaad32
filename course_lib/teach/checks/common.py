"""What the checks of several lessons ask of a run."""

from __future__ import annotations

from typing import Any

from course_lib.teach.checklist import Checklist

BYTES_PER_GRADIENT = 4
MIB = 2**20
OUT_OF_MEMORY = ("device_limit", "cuda_oom", "cpu_oom")


def global_batch(run: Any) -> int | None:
    """As the last iteration line says."""
    said = run.log.iterations["global_batch_size"].dropna()
    return int(said.iloc[-1]) if len(said) else None


def whole_flag(run: Any, name: str, otherwise: int = 0) -> int:
    """A flag that is a whole number; `otherwise` where the run was not given one."""
    value = run.recipe.flags.get(name)
    return int(value) if isinstance(value, str) and value.isdecimal() else otherwise


def ran_out(run: Any) -> bool:
    """Whether a run ended for lack of its devices' memory."""
    failure = None if run.ok else run.failure
    return failure is not None and failure.cause in OUT_OF_MEMORY


def gradient_bytes(check: Checklist, run: Any) -> int:
    """Of one copy of the model that this run trained."""
    count = check.left(run, "log").parameter_count
    check.unless(
        not count,
        "its log says how many parameters there are",
        hint=f"{run.log_file} has no such line. Is it the run that the exercise asks for?",
    )
    return int(BYTES_PER_GRADIENT * count)


def copies(check: Checklist, run: Any) -> int:
    """Among how many the gradients are averaged: two or more."""
    data = run.log.world.data or 1
    check.unless(
        data < 2,
        "the run averaged gradients",
        hint=f"Its log says: {run.log.world}. One copy of the model sends gradients to nobody.",
    )
    return int(data)


def fewer_copies(run: Any) -> str:
    """Why a run had not as many copies of the model as there are devices on both nodes."""
    world, recipe = run.log.world, run.recipe
    cut = {name: getattr(world, name) or 1 for name in ("tensor", "pipeline", "context")}
    look = (
        f"The recipe asks for {recipe.nodes} × {recipe.gpus_per_node}: nodes × devices on each. "
        "Every device has a copy."
    )
    if parts := [f"{name} {size}" for name, size in cut.items() if size > 1]:
        look = f"The model was cut, {', '.join(parts)}, so that a copy takes several devices."
    return f"The world line of its log says: {world}\n{look}"


def same_shape(check: Checklist, run: Any, nodes: int, devices: int, name: str) -> None:
    """The run had as many nodes, with as many devices on each, as another or as the exercise."""
    recipe = run.recipe
    check.that(
        (recipe.nodes, recipe.gpus_per_node) == (nodes, devices),
        f"it had {nodes} × {devices} devices, {name}",
        hint=f"It had {recipe.nodes} × {recipe.gpus_per_node}: nodes × devices on each.",
    )


def iterations_asked(check: Checklist, run: Any, wanted: int) -> None:
    count = whole_flag(run, "--train-iters")
    check.that(
        count == wanted,
        f"it made {wanted} iterations",
        hint=f"It was to make {count}, and the exercise asks for {wanted}.",
    )


def recorded_steps(run: Any) -> int:
    return max(int(run.profile.overlap["step"].nunique()), 1)


def memory_of_rank_0(check: Checklist, run: Any, what: str, how: str) -> Any:
    memory = check.left(run, "memory", what, how=how)
    check.unless(
        0 not in [timeline.rank for timeline in memory],
        f"{what} left its memory",
        hint=f"There is no memory trace of rank 0 in {run.folder}. {how}",
    )
    return memory[0]


def another_run(run: Any, name: str) -> str:
    """Whoever hands in another run than that of the exercise looks for a mistake in vain."""
    if run.name == name:
        return ""
    return f"This is the run {run.name!r}; the recipe of the exercise is called {name!r}. "


def counted_otherwise(batch: int | None, wanted: int, copies: int) -> str:
    """Of a global batch that was taken for that of one device, or multiplied by the devices."""
    if batch is not None and batch * copies == wanted:
        return "The global batch counts over all devices, not on one."
    if batch == wanted * copies:
        return "The global batch counts over all devices; it is not multiplied by them."
    return ""
