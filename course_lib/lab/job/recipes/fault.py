"""Recipes for runs that break on purpose: `code/pretrain_gpt.py` with one fault planted."""

from __future__ import annotations

from typing import Any

from course_lib.lab.errors import RecipeError
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes import gpt, program
from course_lib.lab.job.recipes.keywords import keeps_keywords
from course_lib.lab.job.unfinished import Unfinished, gaps
from course_lib.late_names import offering
from course_lib.mistakes.arguments import explained
from course_lib.mistakes.names import instead
from course_lib.plan import Model

MODEL = Model("faulty", 2, 64, 2, 64, vocabulary=8192)
"""As small as it can be: what is looked at is how a run ends."""
PATIENCE_S = 6
PLAIN: dict[str, Any] = {
    "nodes": 2, "gpus_per_node": 2, "micro_batch": 1, "global_batch": 4, "iterations": 10,
    "diary": True, "launcher": "srun", "time_limit_minutes": 2,
}  # fmt: skip
FAULTS: dict[str, dict[str, Any]] = {
    "stuck": {"distributed_timeout_seconds_after_init": PATIENCE_S},
    "skipped": {"distributed_timeout_seconds_after_init": PATIENCE_S},
    "shape": {"distributed_timeout_seconds_after_init": PATIENCE_S},
    "extra": {"distributed_timeout_seconds_after_init": PATIENCE_S},
    "hoard": {"device_memory_gib": 0.2},
    "leak": {"device_memory_gib": 0.2, "iterations": 40},
    "killed": {},
    "node-dies": {},
    "slow-rank": {},
    "wrong-port": {},
    "wrong-master": {},
    "bad-name": {},
    "port-taken": {},
    "wall": {},
    "bad-sample": {},
    "exploding": {"iterations": 20},
    "fp16": {"precision": "fp16", "initial_loss_scale": 2**40, "min_loss_scale": 2**40,
             "iterations": 30},
    "same-data": {},
    "unequal-weights": {},
    "same-dropout": {},
    "same-order": {},
    "disk-full": {"save": True, "save_interval": 3},
    "killed-saving": {"save": True, "save_interval": 3},
    "damaged": {"save": True, "save_interval": 3},
    "no-internet": {},
    "missing-module": {},
    "old-module": {},
}  # fmt: skip
"""Fault -> what its run needs beside it."""
BY_FLAGS = ("fp16",)
"""What no program needs help with."""


@explained("fault.recipe", takes_gaps=True)
@keeps_keywords("fault")
def recipe(
    name: str, fault: str = "", *, rank: int = 2, iteration: int = 4, **more: Any
) -> Recipe | Unfinished:  # fmt: skip
    """A small training run on 2 × 2 devices in which `fault` happens to this rank, from this
    iteration on; without a fault, the same run in health. `more` is what gpt.recipe takes."""
    if missing := gaps({"fault": fault, "rank": rank, "iteration": iteration, **more}):
        return Unfinished(name, missing)
    if fault == "normalisation":
        return program.recipe(
            name, "weigh_tokens.py", nodes=2, gpus_per_node=2, mean_over="rank", **more
        )
    if fault and fault not in FAULTS:
        known = [*FAULTS, "normalisation"]
        raise RecipeError(f"no fault {fault!r}; {instead(fault, known, 'there are')}")
    flags = PLAIN | FAULTS.get(fault, {})
    if fault and fault not in BY_FLAGS:
        flags |= {"planted_fault": f"{fault}:{rank}:{iteration}"}
    return gpt.recipe(name, model=MODEL, **(flags | more))


@explained("fault.restarts", takes_gaps=True)
@keeps_keywords("fault")
def restarts(name: str, **more: Any) -> Recipe | Unfinished:
    """A job that goes on from its last checkpoint whenever a node dies: see restarts.py."""
    from course_lib.lab.job.recipes import restarts as made

    return made.recipe(name, **more)


__all__ = ["recipe", "restarts"]
__dir__ = offering(__all__)
