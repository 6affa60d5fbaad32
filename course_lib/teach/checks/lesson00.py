"""Checks of lesson 00, the lab."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any

from course_lib.teach.answers import Amount, in_other_unit
from course_lib.teach.checklist import Checklist
from course_lib.words import N_, _

NAME, NODES = "local", 2
TASKS_PER_NODE = 3
SLEEP_S = 3.0
MOST_RUNS = 100
# Rounding error of hours with four digits, relative to three seconds on four devices.
OF_THE_TABLE = 0.0125
PRINTED = re.compile(r"local(?: (.*))?")
TYPED = re.compile(r"\blocal \d")
TASKS = re.compile(r"\s(-n|--ntasks|--ntasks-per-node)[\s=]*(\d+)")


def ex00_local(run: Any) -> None:
    """Check that three tasks on each node print their local rank."""
    with Checklist("00.1") as check:
        check.succeeded(run)
        check.equal(run.name, NAME, _("name of the run"))
        script = _("Which line of lab.script(local) says so?")
        check.equal(run.recipe.nodes, NODES, _("nodes of the job"), hint=script)
        lines = [PRINTED.fullmatch(line.rstrip()) for line in run.text.splitlines()]
        printed = Counter((line[1] or "").strip() for line in lines if line)
        count = _(
            "Without srun the script runs once, on the first node. `--ntasks` of srun counts over "
            "all nodes, and `ntasks-per-node` on each. The log ends like this:\n{lines}",
            lines=run.last_lines(5),
        )
        begins = _("lines that begin with `local`")
        check.equal(printed.total(), NODES * TASKS_PER_NODE, begins, hint=count)
        started = _tasks_per_node(run.recipe)
        check.that(
            started == TASKS_PER_NODE and not TYPED.search(run.recipe.commands),
            _("by {tasks_per_node} tasks on each node", tasks_per_node=TASKS_PER_NODE),
            hint=_(
                "srun started {count:g} on each node, or the numbers are written into the command. "
                "Ask for tasks with `ntasks-per-node`, and let each task print its own number: "
                "which variable of Slurm holds it?",
                count=started,
            ),
        )
        check.that(
            printed == dict.fromkeys(map(str, range(TASKS_PER_NODE)), NODES),
            _("each node printed 'local 0', 'local 1' and 'local 2'"),
            hint=_other_numbers(printed, run.recipe.commands),
        )


def _tasks_per_node(recipe: Any) -> float:
    """Return the tasks per node that srun or the script's heading asks for; srun's default is 1."""
    heading = "".join(f" --{name}={value}" for name, value in dict(recipe.directives).items())
    asked = TASKS.findall(f"{heading} {recipe.commands}")
    option, count = asked[-1] if asked else ("--ntasks-per-node", 1)
    return int(count) / (1 if option.endswith("-per-node") else recipe.nodes)


def _other_numbers(printed: Counter[str], commands: str) -> str:
    if set(printed) == {"0"} and "SLURM_LOCALID" in commands:
        return _(
            "All {total} lines are 'local 0', although the variable is right. In double quotes "
            "or without quotes, the script fills the variable in once, before srun starts the "
            "tasks. In single quotes, each task fills it in.",
            total=printed.total(),
        )
    said = ", ".join(f"'local {value}'" for value in sorted(printed))
    return _(
        "The log has {said}. Which variable counts the tasks within the node? If a name does not "
        "exist, the variable is empty.",
        said=said,
    )


def ex00_device_seconds(answer: object, runs: Any) -> None:
    """Check the cost of jobs that held their devices without using them."""
    with Checklist("00.2") as check:
        given = check.number(answer, "device_seconds")
        jobs = list(islice(runs, MOST_RUNS)) if isinstance(runs, Iterable) else []
        check.needs(bool(jobs), _("the check got the jobs"), hint=_("Give the check `sleepers`."))
        for run in jobs:
            check.succeeded(run, _("the run `{run}`", run=getattr(run, "name", run)))
        # Without Slurm accounting, only the duration of the sleep is known.
        spent_s = [SLEEP_S if run.elapsed_s is None else run.elapsed_s for run in jobs]
        devices, held = jobs[0].devices, zip(jobs, spent_s, strict=True)
        right = sum(run.devices * each_s for run, each_s in held)
        at_most = sum(run.devices * 60 * run.recipe.time_limit_minutes for run in jobs)
        all_ran = _(
            "That is how long the jobs ran. Each job held {devices} devices.", devices=devices
        )
        slips = (
            in_other_unit(right, "device-seconds", "device-hours"),
            (sum(spent_s), all_ran),
            (right / NODES, _("That is the cost of the devices of one node. Each job had two.")),
            (at_most, _("That is the cost up to the time limit. The jobs ended sooner.")),
        )
        # Times in whole seconds may make two jobs a second longer or shorter.
        also = tuple(right + devices * seconds for seconds in (-2, -1, 1, 2))
        unit = N_("device-seconds")
        check.amount(
            given,
            Amount(right=right, unit=unit, share=OF_THE_TABLE, also=also, slips=slips),
            _("the answer is the device time of the three jobs"),
            hint=_(
                "For each job, multiply its devices by the seconds that it ran (`Elapsed`; the "
                "time in the queue does not count). Then add up the jobs."
            ),
        )
