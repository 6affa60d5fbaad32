"""Checks of lesson 00, the lab."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any

from course_lib.teach.answers import Amount, in_other_unit
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import is_run_of
from course_lib.words import N_, _

NAME, NODES = "local", 2
TASKS_PER_NODE = 3
SLEEP_S = 3.0
MOST_RUNS = 100
# Rounding error of hours with four digits, relative to three seconds on four devices.
OF_THE_TABLE = 0.0125
PRINTED = re.compile(r"local(?: (.*))?")
TYPED = re.compile(r"\blocal \d")
TASKS_OF_SRUN = re.compile(r"srun\b.*?\s(-n|--ntasks|--ntasks-per-node)[\s=]*(\d+)")


def ex00_local(run: Any) -> None:
    """Check that three tasks on each node print their local rank."""
    with Checklist("00.1") as check:
        check.succeeded(run)
        is_run_of(check, run, NAME)
        check.that(
            run.recipe.nodes == NODES,
            _("the job had {nodes} nodes", nodes=NODES),
            hint=_(
                "The job asked for {nodes}. Which line of lab.script(local) says so?",
                nodes=run.recipe.nodes,
            ),
        )
        lines = [PRINTED.fullmatch(line.rstrip()) for line in run.text.splitlines()]
        printed = Counter((line[1] or "").strip() for line in lines if line)
        check.that(
            bool(printed),
            _("its tasks printed lines such as 'local 0'"),
            hint=_(
                "No line of the log begins with `local`. Is the echo after srun?\n{lines}",
                lines=run.last_lines(5),
            ),
        )
        _three_on_each(check, run.recipe, printed.total())
        check.that(
            printed == dict.fromkeys(map(str, range(TASKS_PER_NODE)), NODES),
            _("each node printed 'local 0', 'local 1' and 'local 2'"),
            hint=_other_numbers(printed, run.recipe.commands),
        )


def _three_on_each(check: Checklist, recipe: Any, lines: int) -> None:
    expected, started = NODES * TASKS_PER_NODE, _tasks_per_node(recipe)
    why = (
        _("without srun the script runs once, on the first node, for any number of tasks.")
        if "srun" not in recipe.commands
        else _(
            "there are {nodes} nodes. `--ntasks` of srun counts over all of them, and "
            "`ntasks-per-node` on each.",
            nodes=NODES,
        )
    )
    check.that(
        lines == expected,
        _("{expected} lines were printed", expected=expected),
        hint=_("The log has {lines}: {why}", lines=lines, why=why),
    )
    check.that(
        started == TASKS_PER_NODE and not TYPED.search(recipe.commands),
        _("by {tasks_per_node} tasks on each node", tasks_per_node=TASKS_PER_NODE),
        hint=_(
            "srun started {count:g} on each node, or the numbers are written into the command. "
            "Ask for tasks with `ntasks-per-node`, and let each task print its own number: which "
            "variable of Slurm holds it?",
            count=started,
        ),
    )


def _tasks_per_node(recipe: Any) -> float:
    """Return the tasks per node that srun or the script's heading asks for; srun's default is 1."""
    asked = dict(recipe.directives)
    if found := TASKS_OF_SRUN.search(recipe.commands):
        asked = {"ntasks" if found[1] == "-n" else found[1].lstrip("-"): found[2]}
    each, all_of_them = asked.get("ntasks-per-node", ""), asked.get("ntasks", "")
    if each.isdecimal():
        return int(each)
    return int(all_of_them) / recipe.nodes if all_of_them.isdecimal() else 1


def _other_numbers(printed: Counter[str], commands: str) -> str:
    said = ", ".join(f"'local {value}'" for value in sorted(printed))
    if set(printed) == {"0"} and "SLURM_LOCALID" in commands:
        return _(
            "All {total} lines are 'local 0', although the variable is right. In double quotes "
            "or without quotes, the script fills the variable in once, before srun starts the "
            "tasks. In single quotes, each task fills it in.",
            total=printed.total(),
        )
    if "" in printed:
        return _(
            "There is nothing after `local`, because a variable that does not exist is empty. Is "
            "its name spelt as in the list of SLURM_ variables?"
        )
    return _("The log has {said}. Which variable counts the tasks within the node?", said=said)


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
        devices = [run.devices for run in jobs]
        limits_s = [60 * run.recipe.time_limit_minutes for run in jobs]
        check.amount(
            given,
            _held(devices, spent_s, limits_s),
            _("the answer is the device time of the three jobs"),
            hint=_(
                "For each job, multiply its devices by the seconds that it ran (`Elapsed`; the "
                "time in the queue does not count). Then add up the jobs."
            ),
        )


def _held(devices: list[int], spent_s: list[float], limits_s: list[int]) -> Amount:
    costs = [count * each_s for count, each_s in zip(devices, spent_s, strict=True)]
    right = sum(costs)
    at_most = sum(count * limit_s for count, limit_s in zip(devices, limits_s, strict=True))
    return Amount(
        right=right,
        unit=N_("device-seconds"),
        share=OF_THE_TABLE,
        # Times in whole seconds may make two jobs a second longer or shorter.
        also=tuple(right + devices[0] * seconds for seconds in (-2, -1, 1, 2)),
        slips=(
            in_other_unit(right, "device-seconds", "device-hours"),
            (
                sum(spent_s),
                _(
                    "That is how long the jobs ran. Each job held {devices} devices.",
                    devices=devices[0],
                ),
            ),
            (right / NODES, _("That is the cost of the devices of one node. Each job had two.")),
            (at_most, _("That is the cost up to the time limit. The jobs ended sooner.")),
        ),
    )
