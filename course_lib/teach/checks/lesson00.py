"""Lesson 00, the lab."""

from __future__ import annotations

from collections import Counter
from typing import Any

from course_lib.teach.checklist import Checklist, close

NODES = 2
TASKS_PER_NODE = 3
SLEEP_S = 3.0
CLOCK_S = 1.0
"""Slurm counts whole seconds, and its commands may round them differently."""


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


def ex00_device_seconds(answer: object, runs: Any) -> None:
    """What jobs cost that only held their devices."""
    with Checklist("00.2") as check:
        given = check.number(answer, "device_seconds")
        for run in runs:
            check.succeeded(run, f"the run `{run.name}`")
        # Where Slurm keeps no accounts there is only the sleep itself to count.
        spent_s = [SLEEP_S if run.elapsed_s is None else run.elapsed_s for run in runs]
        costs = [run.devices * each_s for run, each_s in zip(runs, spent_s, strict=True)]
        right, devices = sum(costs), runs[0].devices
        for wrong, hint in (
            (
                sum(spent_s),
                f"That is how long the jobs ran. Each held {devices} devices meanwhile.",
            ),
            (
                right / NODES,
                "You counted one node, or one device on each. How many devices is that?",
            ),
            (costs[0], f"That is one job. There were {len(costs)}."),
            (right / 3600, "That is in device-hours; device-seconds are asked for."),
        ):
            check.unless(close(given, wrong, 0.02), "it counts all that was held", hint=hint)
        check.that(
            abs(given - right) <= sum(run.devices for run in runs) * CLOCK_S,
            "it is what the three jobs held",
            hint=f"You answered {given:g}. For each job: devices × seconds that it ran (`Elapsed`; "
            "the time in the queue does not count). Then add up.",
        )
