"""Comparison of the planner's memory with traces of random layouts.

    python benchmarks/planner_on_box/drawn_layouts.py [--count 20] [--seed 1] [--workspace FOLDER]

Each run has at most four devices of the box. Every part is compared on one rank of each pipeline
stage; as in `lesson_layouts.py`, it may be off by 5 % of itself or 1 % of the whole. The exit code
is 1 if one is off by more. Time is not measured, so other work may run at the same time."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
from lesson_layouts import PART_GOAL, WHOLE_GOAL, memory_rows, met

from course_lib import Lab, gpt, plan
from course_lib.lab.errors import LabError

STEPS = {"iterations": 4, "memory": (2, 3)}
DEVICES = 4
SIZE = {"layers": 4, "hidden": 128, "heads": 4, "sequence": 128, "vocabulary": 1000}
PARTS_OF_LATER_MODELS: dict[str, dict[str, Any]] = {
    "rotary": {"positions": "rotary"},
    "swiglu": {"activation": "swiglu"},
    "rmsnorm": {"norm": "rmsnorm", "bias": False},
    "groups": {"kv_groups": 2},
    "untied": {"tied": False},
}


def drawn_model(chance: random.Random) -> dict[str, Any]:
    """Return recipe options: sometimes a model with some newer features than GPT's."""
    parts = [name for name in PARTS_OF_LATER_MODELS if chance.random() < 0.5]
    if chance.random() < 0.6 or not parts:
        return {}
    changes: dict[str, Any] = {}
    for name in parts:
        changes |= PARTS_OF_LATER_MODELS[name]
    return {"model": plan.Model(" ".join(parts), **SIZE, **changes), "mock_data": True}


def drawn(chance: random.Random) -> dict[str, Any]:
    """Return options of a layout, which may be incompatible."""
    tensor, context = chance.choice([1, 1, 2]), chance.choice([1, 1, 1, 2])
    pipeline, data = chance.choice([1, 2, 2, 4]), chance.choice([1, 1, 2])
    schedule = chance.choice(["", "", "gpipe", "zero-bubble", "interleaved"])
    micro_batch = chance.choice([1, 1, 2, 4])
    options: dict[str, Any] = {
        "tensor": tensor,
        "context": context,
        "pipeline": pipeline,
        "sequence_parallel": tensor > 1 and chance.random() < 0.5,
        "zero": chance.choice([0, 0, 1, 3]) if data > 1 else 0,
        "micro_batch": micro_batch,
        "global_batch": micro_batch * data * chance.choice([1, 2, 4, 8]),
        "precision": chance.choice(["fp32", "fp32", "bf16", "fp16"]),
        "recompute": chance.choice(["none", "none", "none", "selective", "full"]),
    }
    if options["precision"] == "fp16":
        options["initial_loss_scale"] = 4096.0
    if pipeline > 1 and schedule:
        options |= {"virtual": 2} if schedule == "interleaved" else {"schedule": schedule}
    world = tensor * context * pipeline * data
    options |= {"nodes": max(1, world // 2), "gpus_per_node": min(world, 2)}
    return options | drawn_model(chance)


def possible(options: dict[str, Any], number: int) -> Any:
    """Return the recipe, or None if the options are incompatible."""
    if options["nodes"] * options["gpus_per_node"] > DEVICES:
        return None
    try:
        recipe = gpt.recipe(f"drawn-{number}", **STEPS, **options)
        gpt.layout(recipe).check(gpt.model(recipe))
    except (LabError, plan.PlanError):
        return None
    return recipe


def said(options: dict[str, Any]) -> str:
    usual = {"tensor": 1, "context": 1, "pipeline": 1, "zero": 0, "micro_batch": 1}
    usual |= {"sequence_parallel": False, "precision": "fp32", "recompute": "none"}
    unsaid = ("nodes", "gpus_per_node", "initial_loss_scale", "mock_data", "model")
    kept = {k: v for k, v in options.items() if k not in unsaid and usual.get(k) != v}
    devices = options["nodes"] * options["gpus_per_node"]
    words = [f"{devices} devices", *(f"{name} {value}" for name, value in kept.items())]
    return ", ".join([*words, *([options["model"].name] if "model" in options else [])])


def compared(run: Any) -> pd.DataFrame:
    table = pd.DataFrame(memory_rows(run, plan.STACKS["course"]))
    table["off"] = table.predicted - table.measured
    return table.assign(far=~met(table))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workspace", type=Path)
    given = parser.parse_args()
    folder = given.workspace or Path(tempfile.mkdtemp(prefix="planner-memory-"))
    lab, chance = Lab(folder, site="box", quiet=True), random.Random(given.seed)
    done = missed = 0
    for number in range(50 * given.count):
        options = drawn(chance)
        recipe = possible(options, number)
        if done == given.count:
            break
        if recipe is None:
            continue
        table = compared(lab.submit(recipe).require())
        done, missed = done + 1, missed + bool(table.far.any())
        off = 100 * (table.groupby("stage").off.sum() / table.groupby("stage").whole.first())
        worst = off.loc[off.abs().idxmax()]
        print(f"{'✗' if table.far.any() else '✓'} {worst:+.1f} %  {said(options)}", flush=True)
        for row in table[table.far].itertuples():
            share = 100 * row.off / row.whole
            print(f"    stage {row.stage}, {row.part}: {share:+.1f} % of the whole", flush=True)
    goals = f"{PART_GOAL:.0%} of a part or {WHOLE_GOAL:.0%} of the whole"
    print(f"{done - missed} of {done} layouts within {goals}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
