"""Lesson 14: two short runs calibrate the planner, and it predicts a third."""

from __future__ import annotations

import os
from typing import Any

from acceptance import jobs
from acceptance.notes import Notes
from course_lib import gpt, plan

TIME_GOAL, MEMORY_GOAL = 0.20, 0.05
RECORDED = (7, 8)


def hold(notes: Notes) -> None:
    lab = jobs.lab(notes.folder)
    model = "tiny" if notes.rehearse else "gpt2"

    def run(name: str, micro_batch: int, **more: Any) -> Any:
        given = {"model": model, "micro_batch": micro_batch, "iterations": 10, **more}
        return lab.submit(gpt.recipe(name, **given)).require()

    probes = [run("probe-2", 2), run("probe-4", 4)]
    here = plan.calibrate(cluster(), plan.STACKS["course"], [observed(probe) for probe in probes])
    notes.fact("factors", {name: round(factor, 2) for name, factor in here.factors.items()})
    target = run("target", 8, memory=RECORDED)
    estimate = plan.predict(gpt.model(target.recipe), gpt.layout(target.recipe), here.cluster,
                            here.stack)  # fmt: skip
    compare(notes, target, estimate)
    for each in (*probes, target):
        jobs.keep(each, notes.folder)


def compare(notes: Notes, target: Any, estimate: Any) -> None:
    planned, measured = sum(estimate.fullest.parts.values()), target.memory[0].peak_bytes
    off = planned / measured - 1
    notes.check("memory within 5 %", abs(off) <= MEMORY_GOAL, percent(off))
    off = estimate.seconds / seconds(target) - 1
    notes.fact("ms per iteration", f"{1e3 * estimate.seconds:.1f} predicted, "
               f"{1e3 * seconds(target):.1f} measured")  # fmt: skip
    # A rehearsal shares its processors with other processes.
    notes.check("time within 20 %", abs(off) <= TIME_GOAL or notes.rehearse, percent(off))


def percent(off: float) -> str:
    return f"{100 * off:+.1f} %"


def cluster() -> Any:
    """Return the cluster of this GPU by its name in the planner's table, else the A100's."""
    import torch

    if not torch.cuda.is_available():
        return plan.box(processors=os.cpu_count())
    found = torch.cuda.get_device_properties(0)
    known = in_table(found.name, found.total_memory / 2**30)
    return plan.cluster(known).but(nodes=2, devices_per_node=2)


def in_table(name: str, memory_gib: float) -> str:
    """Return the longest fitting name, as GH200 contains H200, with the nearest memory size."""
    fitting = [device for device in plan.DEVICES if device.partition("-")[0] in name]

    def nearness(device: str) -> tuple[int, float]:
        return len(device.partition("-")[0]), -abs(plan.device(device).memory_gib - memory_gib)

    return max(fitting, key=nearness, default="A100-40GB")


def seconds(run: Any) -> float:
    return float(run.log.iterations["elapsed_ms"].median()) / 1e3


def observed(run: Any) -> Any:
    return plan.Observation(gpt.model(run.recipe), gpt.layout(run.recipe), seconds(run))
