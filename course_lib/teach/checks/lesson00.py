"""Lesson 00, the lab."""

from __future__ import annotations

from collections import Counter
from typing import Any

from course_lib.teach.checklist import Checklist

NODES = 2
TASKS_PER_NODE = 3


def ex00_local(run: Any) -> None:
    """Three tasks on each node, each printing its number within the node."""
    with Checklist("00.1") as check:
        check.succeeded(run)
        check.that(
            run.recipe.nodes == NODES,
            f"the job had {NODES} nodes",
            hint=f"It asked for {run.recipe.nodes}. Which line of lab.script(local) says so?",
        )
        printed = Counter(line for line in run.text.splitlines() if line.startswith("local "))
        check.that(
            bool(printed),
            "its tasks printed lines such as 'local 0'",
            hint="No line of the log begins so. Is the echo behind srun?\n" + run.tail(5),
        )
        expected = NODES * TASKS_PER_NODE
        check.that(
            sum(printed.values()) == expected,
            f"{expected} tasks printed a line",
            hint=f"The log has {sum(printed.values())}. There are {NODES} nodes, and "
            "`ntasks-per-node` counts on each of them.",
        )
        check.that(
            printed == {f"local {slot}": NODES for slot in range(TASKS_PER_NODE)},
            "each node printed 'local 0', 'local 1' and 'local 2'",
            hint=f"The log has {', '.join(sorted(printed))}: numbers that count over the whole job."
            " Which variable counts within the node?",
        )


def ex00_exit_code(answer: object, run: Any) -> None:
    """The exit code of a command that does not exist."""
    with Checklist("00.2") as check:
        given = check.number(answer, "exit_code")
        code = run.exit_code
        check.unless(
            given == 0,
            "it is the code of a failure",
            hint="0 is success, and this job failed. Print run.exit_code.",
        )
        check.that(
            given == code,
            "it is the code that the job ended with",
            hint=f"You answered {given:g}. Look at typo.exit_code, or at the column ExitCode of\n"
            f"!sacct -X -j {run.job_id}",
        )
