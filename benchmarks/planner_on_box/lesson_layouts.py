"""Comparison of the planner with runs on this machine: every layout of the lessons.

    python benchmarks/planner_on_box/lesson_layouts.py [NAME …] [--workspace FOLDER]

One measurement of the links calibrates it, and short runs on one device between any two layouts:
the speed of a shared machine drifts, so the runs before and after a layout predict it. Compared are
seconds per iteration (the median without recorded ones) and memory by part, on one rank of each
pipeline stage. The exit code is 1 if a layout misses the goals: 15 % in time, and for each part of
the memory 5 % of itself or 1 % of the whole."""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

from course_lib import Lab, gpt, links, plan
from course_lib.plan.memory.stage_memory import memory_of_stage
from course_lib.plan.shapes.ranks import coordinates

TIME_GOAL, PART_GOAL, WHOLE_GOAL = 0.15, 0.05, 0.01
ITERATIONS, RECORDED = 12, (2, 3)
PROBE = "one device"
ONE, PAIR, FOUR = ({"nodes": n, "gpus_per_node": g} for n, g in ((1, 1), (1, 2), (2, 2)))
EIGHT = {"micro_batch": 1, "global_batch": 8}
LAYOUTS: dict[str, dict[str, Any]] = {
    PROBE: {**ONE, "micro_batch": 4},
    "accumulation": {**ONE, "micro_batch": 1, "global_batch": 4},
    "recompute selective": {**ONE, "micro_batch": 4, "recompute": "selective"},
    "recompute full": {**ONE, "micro_batch": 4, "recompute": "full"},
    "recompute block": {
        **ONE, "micro_batch": 4, "recompute": "full", "recompute_method": "block",
        "recompute_layers": 2,
    },
    "bf16": {**ONE, "micro_batch": 4, "precision": "bf16"},
    "fp16": {**ONE, "micro_batch": 4, "precision": "fp16", "initial_loss_scale": 4096.0},
    "data 2": {**PAIR, "micro_batch": 2},
    "data 4": {**FOUR, "micro_batch": 2},
    "data 4, accumulation": {**FOUR, "micro_batch": 1, "global_batch": 16},
    "zero 1": {**FOUR, "micro_batch": 2, "zero": 1},
    "fsdp": {**FOUR, "micro_batch": 2, "zero": 3},
    "tensor 2": {**PAIR, "tensor": 2, "micro_batch": 4},
    "tensor 2, sequence": {**PAIR, "tensor": 2, "micro_batch": 4, "sequence_parallel": True},
    "tensor 4": {**FOUR, "tensor": 4, "micro_batch": 4},
    "tensor 2 × data 2": {**FOUR, "tensor": 2, "micro_batch": 2},
    "pipeline 2": {**PAIR, "pipeline": 2, **EIGHT},
    "pipeline 2, gpipe": {**PAIR, "pipeline": 2, "schedule": "gpipe", **EIGHT},
    "pipeline 2, interleaved": {**PAIR, "pipeline": 2, "virtual": 2, **EIGHT},
    "pipeline 2, zero-bubble": {**PAIR, "pipeline": 2, "schedule": "zero-bubble", **EIGHT},
    "pipeline 4": {**FOUR, "pipeline": 4, **EIGHT},
    "tensor 2 × pipeline 2": {**FOUR, "tensor": 2, "pipeline": 2, **EIGHT},
    "context 2": {**PAIR, "context": 2, "micro_batch": 4},
    "context 4": {**FOUR, "context": 4, "micro_batch": 4},
}  # fmt: skip


def recipe(name: str) -> Any:
    plain = name.replace(" ", "-").replace(",", "").replace("×", "x")
    return gpt.recipe(plain, iterations=ITERATIONS, memory=RECORDED, **LAYOUTS[name])


def seconds(run: Any) -> float:
    """Return the seconds of an iteration after the recorded ones."""
    return statistics.median(run.log.iterations["elapsed_ms"][RECORDED[1] + 1 :]) / 1e3


def shapes(run: Any) -> tuple[plan.Model, plan.Layout]:
    return gpt.model(run.recipe), gpt.layout(run.recipe)


def probe(lab: Lab, turn: int) -> Any:
    return lab.submit(recipe(PROBE).but(name=f"probe-{turn}")).require()


def calibrated(where: plan.Cluster, before: Any, after: Any) -> Any:
    """Calibrate with the mean of both runs: as two observations they would fit a second constant,
    which two runs of one layout do not determine."""
    both_s = statistics.mean((seconds(before), seconds(after)))
    seen = plan.Observation(*shapes(before), both_s)
    return plan.calibrate(where, plan.STACKS["course"], [seen])


def memory_rows(run: Any, stack: plan.Stack) -> list[dict[str, Any]]:
    """Return one row per part and pipeline stage, from its first rank."""
    model, layout = shapes(run)
    found: dict[int, list[dict[str, Any]]] = {}
    for timeline in run.memory:
        stage = coordinates(layout, timeline.rank)["pp"]
        if stage in found:
            continue
        predicted = memory_of_stage(model, layout, stack, stage).traced
        whole = timeline.peak_bytes
        found[stage] = [
            {"stage": stage, "part": part, "predicted": predicted[part], "measured": size,
             "whole": whole}
            for part, size in timeline.peak_composition.items()
        ]  # fmt: skip
    return [row for rows in found.values() for row in rows]


def met(table: pd.DataFrame) -> pd.Series:
    """Mark the rows of memory that meet the goals."""
    off = (table.predicted - table.measured).abs()
    return (off <= PART_GOAL * table.measured) | (off <= WHOLE_GOAL * table.whole)


def compare(name: str, run: Any, site: Any) -> dict[str, Any]:
    model, layout = shapes(run)
    per_node = run.recipe.gpus_per_node
    where = site.cluster.but(nodes=run.recipe.nodes, devices_per_node=per_node)
    estimate = plan.predict(model, layout, where, site.stack)
    table = pd.DataFrame(memory_rows(run, site.stack))
    off, within = (table.predicted - table.measured).abs(), met(table)
    worst = (off / table.whole).idxmax()
    measured = seconds(run)
    error = estimate.seconds / measured - 1
    peak = table.groupby("stage")[["predicted", "measured"]].sum()
    return {
        "layout": name,
        "measured ms": round(1e3 * measured, 1),
        "predicted ms": round(1e3 * estimate.seconds, 1),
        "time %": round(100 * error, 1),
        "peak %": round(100 * (peak.predicted / peak.measured - 1).abs().max(), 1),
        "parts met": f"{int(within.sum())}/{len(table)}",
        "worst part": f"{table.part[worst]} of stage {table.stage[worst]}",
        "met": bool(within.all()) and abs(error) <= TIME_GOAL,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {'; '.join(LAYOUTS)}")
    parser.add_argument("--workspace", type=Path, help="where runs are kept, and found again")
    given = parser.parse_args()
    folder = given.workspace or Path(tempfile.mkdtemp(prefix="planner-box-"))
    lab = Lab(folder, site="box", quiet=True)
    roads = lab.submit(links.recipe("roads", max_bytes=16 << 20, repeat=10)).require()
    where = plan.with_links(plan.box(), roads.links)
    rows, before = [], probe(lab, 0)
    for turn, name in enumerate(given.names or LAYOUTS, 1):
        run, after = lab.submit(recipe(name)).require(), probe(lab, turn)
        site = calibrated(where, before, after)
        rows.append(compare(name, run, site))
        print(*rows[-1].values(), sep="\t", flush=True)
        before = after
    table = pd.DataFrame(rows).set_index("layout")
    print(f"\n{table.to_string()}\n\nlast calibrated: {site.factors}")
    print(f"time, median |error|: {table['time %'].abs().median():.1f} %; met: {table.met.sum()}"
          f" of {len(table)}")  # fmt: skip
    return 0 if table.met.all() else 1


if __name__ == "__main__":
    sys.exit(main())
