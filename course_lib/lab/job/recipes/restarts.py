"""A job that starts its program again for as long as it ends badly: what goodput is measured on."""

from __future__ import annotations

import shlex
from typing import Any

from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes import fault, shell
from course_lib.lab.job.recipes.keywords import keeps_keywords
from course_lib.lab.job.unfinished import Unfinished, gaps
from course_lib.mistakes.arguments import explained

LINES = """\
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
export MASTER_ADDR="${{nodes[0]}}" OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1 TORCH_CPP_LOG_LEVEL=ERROR
getent hosts "$MASTER_ADDR" >/dev/null 2>&1 || MASTER_ADDR=127.0.0.1
for attempt in $(seq 1 {most}); do
    export MASTER_PORT=$((10000 + (SLURM_JOB_ID * 37 + attempt) % 20000))
    echo "attempt $attempt begins at $(date +%s.%N)"
    if srun --nodes={nodes} --ntasks-per-node={each} --cpus-per-task=1 --kill-on-bad-exit=1 \\
        python {program} {arguments}; then
        echo "attempt $attempt has done the work at $(date +%s.%N)"
        exit 0
    fi
    echo "attempt $attempt ends at $(date +%s.%N)"
done
exit 1
"""


@explained("fault.restarts", takes_gaps=True)
@keeps_keywords("restarts")
def recipe(
    name: str, *, mean_s: int = 12, seed: int = 1, save_interval: int = 10, attempts: int = 12,
    programs: str = "", **more: Any,
) -> Recipe | Unfinished:  # fmt: skip
    """A training that goes on from its last checkpoint whenever a node dies, which happens every
    `mean_s` seconds of a start on average. `programs` is the folder of the course's programs, that
    of `lab.site`; `more` is what fault.recipe takes."""
    if missing := gaps({"mean_s": mean_s, "seed": seed, "save_interval": save_interval, **more}):
        return Unfinished(name, missing)
    run = "$COURSE_RUN_DIR/checkpoints"
    inner = fault.recipe(
        name, planted_fault=f"mortal:{seed}:{mean_s}" if mean_s else None, diary=False,
        save_interval=save_interval, save="SAVE", load="LOAD", **more,
    )  # fmt: skip
    assert isinstance(inner, Recipe)
    words = " ".join(map(shlex.quote, inner.arguments))
    words = words.replace("SAVE", f'"{run}"').replace("LOAD", f'"{run}"')
    words = words.replace("'{run}", '"$COURSE_RUN_DIR"\'').replace("{run}", "$COURSE_RUN_DIR")
    program = f"{programs}/{inner.program}" if programs else inner.program
    return shell.recipe(
        name,
        LINES.format(
            most=attempts, nodes=inner.nodes, each=inner.gpus_per_node,
            program=shlex.quote(program), arguments=words,
        ),
        nodes=inner.nodes, gpus_per_node=inner.gpus_per_node, time_limit_minutes=3,
    )  # fmt: skip
