"""Recipes for runs that fail on purpose: `code/pretrain_gpt.py` with one planted fault."""

from __future__ import annotations

import shlex
from typing import Any

from course_lib.lab.job.recipe import RUN_FOLDER, Recipe
from course_lib.lab.job.recipes import gpt, program, shell
from course_lib.lab.job.recipes.keywords import recipe_maker
from course_lib.lab.job.unfinished import Unfinished, gaps
from course_lib.late_names import offering
from course_lib.mistakes.arguments import explained
from course_lib.plan import Model
from course_lib.plan.checks import one_of, whole_number

# The smallest possible model, because only the end of the run matters.
MODEL = Model("faulty", 2, 64, 2, 64, vocabulary=8192)
PATIENCE_S = 6
# Restarts the program until it succeeds.
LINES = """\
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
export MASTER_ADDR="${{nodes[0]}}" OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1 TORCH_CPP_LOG_LEVEL=ERROR
getent hosts "$MASTER_ADDR" >/dev/null 2>&1 || MASTER_ADDR=127.0.0.1
for attempt in $(seq 1 {most}); do
    export MASTER_PORT=$((10000 + (SLURM_JOB_ID * 37 + attempt) % 20000))
    echo "attempt $attempt begins at $(date +%s.%N)"
    if srun --nodes={nodes} --ntasks={tasks} --ntasks-per-node={each} --cpus-per-task=1 \\
        --kill-on-bad-exit=1 python {program} {arguments}; then
        echo "attempt $attempt has done the work at $(date +%s.%N)"
        exit 0
    fi
    echo "attempt $attempt ends at $(date +%s.%N)"
done
exit 1
"""
PLAIN: dict[str, Any] = {
    "nodes": 2, "gpus_per_node": 2, "micro_batch": 1, "global_batch": 4, "iterations": 10,
    "diary": True, "launcher": "srun", "time_limit_minutes": 2,
}  # fmt: skip
# A short time-out, and a record of the last collectives.
WAITS: dict[str, Any] = {
    "distributed_timeout_seconds_after_init": PATIENCE_S,
    "environment": {"TORCH_FR_BUFFER_SIZE": "200"},
}
# Faults of the blind cases, in the order in which their seeds draw them.
KINDS = (
    "stuck", "bad-name", "leak", "same-data", "killed", "disk-full", "slow-rank", "shape",
    "missing-module", "bad-sample", "wrong-port", "unequal-weights", "hoard", "skipped",
    "port-taken", "exploding", "same-dropout", "node-dies", "no-internet", "same-order",
    "old-module", "wrong-master",
)  # fmt: skip
FAULTS = (*KINDS, "damaged", "extra", "fp16", "killed-saving")
# Settings that some faults need.
SETTINGS: dict[str, dict[str, Any]] = {
    "stuck": WAITS,
    "skipped": WAITS,
    "shape": WAITS,
    "extra": WAITS,
    "hoard": {"device_memory_gib": 0.2},
    "leak": {"device_memory_gib": 0.2, "iterations": 40},
    "exploding": {"iterations": 20},
    "fp16": {"precision": "fp16", "initial_loss_scale": 2**40, "min_loss_scale": 2**40,
             "iterations": 30},
    "disk-full": {"save": True, "save_interval": 3},
    "killed-saving": {"save": True, "save_interval": 3},
    "damaged": {"save": True, "save_interval": 3, "iterations": 9},
}  # fmt: skip
# Faults that flags alone cause, without help of the program.
BY_FLAGS = ("fp16",)


@recipe_maker("fault")
def recipe(
    name: str, fault: str = "", *, rank: int = 2, iteration: int = 4, **more: Any
) -> Recipe | Unfinished:  # fmt: skip
    """Return a small training run on 2 × 2 devices with one `fault` on this rank from this
    iteration on. Without a fault, the run is healthy. `more` are keywords of gpt.recipe."""
    if fault == "normalisation":
        return program.recipe(
            name, "weigh_tokens.py", nodes=2, gpus_per_node=2, mean_over="rank", **more
        )
    if fault:
        one_of("fault", fault, [*FAULTS, "normalisation"])
    is_planted = fault and fault not in BY_FLAGS
    planted = {"planted_fault": f"{fault}:{rank}:{iteration}"} if is_planted else {}
    flags = PLAIN | SETTINGS.get(fault, {}) | planted | more
    made = gpt.recipe(name, model=MODEL, **flags)
    if planted and isinstance(made, Recipe):  # otherwise the fault would never happen
        whole_number("rank", rank, 0, made.devices - 1)
        whole_number("iteration", iteration, 1, flags["iterations"])
    return made


@explained("fault.restarts", takes_gaps=True)
def restarts(
    name: str, *, mean_s: int = 12, seed: int = 1, save_interval: int = 10, attempts: int = 12,
    programs: str = "", **more: Any,
) -> Recipe | Unfinished:  # fmt: skip
    """Return a training run that restarts from its last checkpoint whenever a node dies. A node
    dies on average `mean_s` seconds after a start (0: never). `programs` is the folder of the
    course's programs, `lab.site.programs`. `more` are keywords of fault.recipe."""
    if missing := gaps({"mean_s": mean_s, "seed": seed, "save_interval": save_interval, **more}):
        return Unfinished(name, missing)
    for what, value, least in (
        ("mean_s", mean_s, 0),
        ("seed", seed, 0),
        ("attempts", attempts, 1),
        ("save_interval", save_interval, 1),
    ):
        whole_number(what, value, least)
    dies = f"mortal:{seed}:{mean_s}" if mean_s else None
    inner = recipe(
        name, planted_fault=dies, diary=False, save=True, save_interval=save_interval,
        load=f"{RUN_FOLDER}/checkpoints", mock_data=True, vocab_size=MODEL.vocabulary,
        **({"log_interval": 1} | more),
    )  # fmt: skip
    if isinstance(inner, Unfinished):
        return inner
    words = " ".join(map(shlex.quote, inner.arguments))
    text = LINES.format(
        most=attempts, nodes=inner.nodes, tasks=inner.devices, each=inner.gpus_per_node,
        program=shlex.quote(f"{programs}/{inner.program}" if programs else inner.program),
        arguments=words.replace(f"'{RUN_FOLDER}/", "\"$COURSE_RUN_DIR\"/'"),
    )  # fmt: skip
    return shell.recipe(  # one task on each node, with CPUs for all processes of its steps
        name, text, nodes=inner.nodes, gpus_per_node=inner.gpus_per_node,
        cpus_per_task=inner.gpus_per_node, time_limit_minutes=6,
    )  # fmt: skip


__all__ = ["recipe", "restarts"]
__dir__ = offering(__all__)
