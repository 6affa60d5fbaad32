"""Lesson 00, the lab."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import another_run
from course_lib.teach.slips import Quantity, Slip

NAME, NODES = "local", 2
TASKS_PER_NODE = 3
SLEEP_S = 3.0
MOST_RUNS = 100
CLOCK_S = 1
"""Slurm counts whole seconds, and its commands may round them differently."""
OF_THE_TABLE = 0.0125
"""Share by which hours with four digits may miss those of three seconds on four devices."""
PRINTED = re.compile(r"local(?: (.*))?")
WITH_MORE = re.compile(r"\d+\s+\S")
TYPED = re.compile(r"\blocal \d")
TASKS_OF_SRUN = re.compile(r"srun\b.*?\s(-n|--ntasks|--ntasks-per-node)[\s=]*(\d+)")


def ex00_local(run: Any) -> None:
    """Three tasks on each node, each printing its number within the node."""
    with Checklist("00.1") as check:
        check.succeeded(run)
        check.that(
            run.recipe.nodes == NODES,
            f"the job had {NODES} nodes",
            hint=f"It asked for {run.recipe.nodes}. Which line of lab.script(local) says so?",
        )
        printed = _printed(run.text)
        check.that(
            bool(printed),
            "its tasks printed lines such as 'local 0'",
            hint=_none_printed(run),
        )
        _three_on_each(check, run.recipe, printed.total())
        check.that(
            printed == dict.fromkeys(map(str, range(TASKS_PER_NODE)), NODES),
            "each node printed 'local 0', 'local 1' and 'local 2'",
            hint=_other_numbers(printed, run.recipe.commands),
        )


def _none_printed(run: Any) -> str:
    if any(line.strip().isdecimal() for line in run.text.splitlines()):
        return "There are numbers in the log, without the word `local` before them."
    return (
        f"{another_run(run, NAME)}No line of the log begins so. Is the echo after srun?\n"
        f"{run.tail(5)}"
    )


def _three_on_each(check: Checklist, recipe: Any, lines: int) -> None:
    expected, started = NODES * TASKS_PER_NODE, _tasks_per_node(recipe)
    check.unless(
        "srun" not in recipe.commands and lines < expected,
        f"{expected} lines were printed",
        hint=f"The log has {lines}, and there is no srun in the command: without it the script "
        "runs once, on the first node, however many tasks were asked for.",
    )
    check.unless(
        lines == TASKS_PER_NODE and started < TASKS_PER_NODE and "--ntasks" in recipe.commands,
        f"{expected} lines were printed",
        hint=f"The log has {lines}: `--ntasks` of srun counts over all nodes. `ntasks-per-node` "
        "counts on each of them.",
    )
    check.that(
        lines == expected,
        f"{expected} lines were printed",
        hint=f"The log has {lines}. There are {NODES} nodes, and `ntasks-per-node` counts on each "
        "of them.",
    )
    check.unless(
        bool(TYPED.search(recipe.commands)),
        f"by {TASKS_PER_NODE} tasks on each node",
        hint="The numbers stand in the command. Each task is to print its own: which variable of "
        "Slurm holds it?",
    )
    check.that(
        started == TASKS_PER_NODE,
        f"by {TASKS_PER_NODE} tasks on each node",
        hint=f"srun started {started:g} on each. A loop prints as many lines, but all of them from "
        "one process: ask for tasks with `ntasks-per-node`.",
    )


def _printed(text: str) -> Counter[str]:
    """What stands behind each `local`."""
    lines = [PRINTED.fullmatch(line.rstrip()) for line in text.splitlines()]
    return Counter((line[1] or "").strip() for line in lines if line)


def _tasks_per_node(recipe: Any) -> float:
    """As srun or the heading asks for; srun takes one task per node otherwise."""
    asked = dict(recipe.directives)
    if found := TASKS_OF_SRUN.search(recipe.commands):
        asked = {"ntasks" if found[1] == "-n" else found[1].lstrip("-"): found[2]}
    each, all_of_them = asked.get("ntasks-per-node", ""), asked.get("ntasks", "")
    if each.isdecimal():
        return int(each)
    return int(all_of_them) / recipe.nodes if all_of_them.isdecimal() else 1


def _other_numbers(printed: Counter[str], commands: str) -> str:
    said = ", ".join(f"'local {value}'" for value in sorted(printed))
    return (
        _no_number(printed, commands, said)
        or _another_number(printed, said)
        or f"The log has {said}. Which variable counts the tasks within the node?"
    )


def _no_number(printed: Counter[str], commands: str, said: str) -> str:
    if set(printed) == {"0"} and "SLURM_LOCALID" in commands:
        return (
            f"All {printed.total()} lines are 'local 0', though the variable is the right one: "
            "between double quotes, or without any, the script fills it in once, before srun "
            "starts the tasks. In single quotes each task does."
        )
    if all(map(WITH_MORE.match, printed)):
        return f"The log has {said}. After the number nothing else is asked for."
    if "" in printed:
        return (
            "Nothing stands after `local`: a variable that does not exist is empty. Is its name"
            " spelt as in the list of SLURM_ variables?"
        )
    if any(value.startswith("$") for value in printed):
        return (
            f"The log has {said}: the name, not the value. Nobody replaces a `$` after a "
            "backslash or inside single quotes that the task's own shell does not take away."
        )
    return ""


def _another_number(printed: Counter[str], said: str) -> str:
    if printed == dict.fromkeys(map(str, range(NODES)), TASKS_PER_NODE):
        return (
            f"The log has {said}, each {TASKS_PER_NODE} times: that is the number of the node, "
            "or a remainder. Which variable tells the tasks of one node apart?"
        )
    if printed == dict.fromkeys(map(str, range(1, TASKS_PER_NODE + 1)), NODES):
        return f"The log has {said}: you count from 1. Slurm counts from 0, and so do the devices."
    if set(printed) == {str(printed.total())}:
        return f"The log has {said}: that is how many tasks there are. Each has its own number."
    if any(value.isdecimal() and int(value) > printed.total() for value in printed):
        return f"The log has {said}: numbers of processes. Which variable counts tasks?"
    if len(printed) == NODES * TASKS_PER_NODE:
        return (
            f"The log has {said}: numbers that count over the whole job. Which variable counts "
            "within the node?"
        )
    return ""


def ex00_device_seconds(answer: object, runs: Any) -> None:
    """What jobs cost that only held their devices."""
    with Checklist("00.2") as check:
        given = check.number(answer, "device_seconds")
        jobs = list(islice(runs, MOST_RUNS)) if isinstance(runs, Iterable) else []
        check.unless(not jobs, "the jobs were handed in", hint="Give the check `sleepers`.")
        for run in jobs:
            check.succeeded(run, f"the run `{getattr(run, 'name', run)}`")
        # Where Slurm keeps no accounts there is only the sleep itself to count.
        spent_s = [SLEEP_S if run.elapsed_s is None else run.elapsed_s for run in jobs]
        devices = [run.devices for run in jobs]
        limits_s = [60 * run.recipe.time_limit_minutes for run in jobs]
        check.amount(
            given,
            _held(devices, spent_s, limits_s).or_as(*_as_clocks_say(devices, spent_s), given=given),
            "it is what the three jobs held",
            hint="For each job: devices × seconds that it ran (`Elapsed`; the time in the queue "
            "does not count). Then add up.",
        )


def _held(devices: list[int], spent_s: list[float], limits_s: list[int]) -> Quantity:
    costs = [count * each_s for count, each_s in zip(devices, spent_s, strict=True)]
    right = sum(costs)
    own: list[Slip] = [
        (
            sum(spent_s),
            f"That is how long the jobs ran. Each held {devices[0]} devices meanwhile.",
        ),
        (right / NODES, "You counted one node, or one device on each. How many devices is that?"),
    ]
    for cost in costs:
        own.append((cost, f"That is one job. There were {len(costs)}."))
        own.append((right - cost, f"One job is missing. There were {len(costs)}."))
    own += _of_what_was_asked(devices, limits_s)
    return Quantity(
        right=right,
        unit="device-seconds",
        share=OF_THE_TABLE,
        own=(
            *own,
            (devices[0] * max(spent_s) * len(costs), "You let all run as long as the longest."),
            (len(costs) * SLEEP_S, f"That is the sleep on one device. Each held {devices[0]}."),
            (right / NODES / 2, f"That is one device of {devices[0]}."),
            (
                right * 2,
                f"That is twice as much: each job holds {devices[0]} devices, and only while it "
                "runs. Waiting in the queue costs nothing.",
            ),
            (
                sum(spent_s) / devices[0],
                f"You divided by the {devices[0]} devices. Each of them is paid for all the time.",
            ),
        ),
        known={
            "the sleep": SLEEP_S,
            "the devices of a job": devices[0],
            "how long the longest job ran": max(spent_s),
        },
        counts={"devices": devices[0], "jobs": len(costs)},
    )


def _of_what_was_asked(devices: list[int], limits_s: list[int]) -> Iterator[Slip]:
    at_most = sum(count * limit_s for count, limit_s in zip(devices, limits_s, strict=True))
    yield at_most, "That is what they might hold until their time limit. They ended sooner."
    yield sum(devices), "These are the devices of all jobs. How long did each hold them?"


def _as_clocks_say(devices: list[int], spent_s: list[float]) -> set[float]:
    """What the jobs held in whole seconds. No job can be shorter than its sleep; whether one was a
    second longer, clocks may see differently, but hardly of all."""
    sums, longest = {0.0}, 0.0
    for count, each_s in zip(devices, spent_s, strict=True):
        whole_s = math.floor(each_s)
        shortest_s = max(whole_s - CLOCK_S, min(SLEEP_S, each_s))
        sums = {
            held + count * any_s
            for held in sums
            for any_s in (shortest_s, each_s, whole_s + CLOCK_S)
        }
        longest += count * (whole_s + CLOCK_S)
    return sums - {longest}
