"""The course's training program holds and computes exactly what the planner predicts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib.plan import Layout, Model
from course_lib.plan.shapes.flops import of_iteration
from course_lib.plan.shapes.parameter_counts import on_rank

COUNTER = Path(__file__).with_name("count_engine.py")
SHAPE = "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 300"
BATCH = "--micro-batch-size 2 --global-batch-size 4"
UNTIED = "--untie-embeddings-and-output-weights"
FULL = "--recompute-granularity full --recompute-method"
MODEL = Model("engine", 4, 64, 4, 32, 300)
LAYOUT = Layout(micro_batch=2, global_batch=4, precision="fp32")

CASES = {
    "plain": (f"{SHAPE} {BATCH}", MODEL, LAYOUT),
    "untied": (f"{SHAPE} {BATCH} {UNTIED}", MODEL.but(tied=False), LAYOUT),
    "wide": (f"{SHAPE} {BATCH} --ffn-hidden-size 96", MODEL.but(ffn=96), LAYOUT),
    "uniform": (
        f"{SHAPE} {BATCH} {FULL} uniform --recompute-num-layers 2",
        MODEL,
        LAYOUT.but(recompute="full", recompute_layers=2),
    ),
    "block": (
        f"{SHAPE} {BATCH} {FULL} block --recompute-num-layers 3",
        MODEL,
        LAYOUT.but(recompute="full", recompute_method="block", recompute_layers=3),
    ),
    "selective": (
        f"{SHAPE} {BATCH} --recompute-granularity selective",
        MODEL,
        LAYOUT.but(recompute="selective"),
    ),
    "tensor": (SHAPE, MODEL, Layout(tensor=2)),
    "pipeline": (SHAPE, MODEL, Layout(pipeline=2)),
    "both": (f"{SHAPE} {UNTIED}", MODEL.but(tied=False), Layout(tensor=4, pipeline=4)),
}


@pytest.fixture(scope="module")
def counted():
    cases = [[flags, layout.tensor, layout.pipeline] for flags, _, layout in CASES.values()]
    command = [sys.executable, str(COUNTER), json.dumps(cases)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return dict(zip(CASES, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_every_stage_holds_the_parameters_that_are_predicted(counted, case):
    _, model, layout = CASES[case]
    predicted = [on_rank(model, layout, stage).total for stage in range(layout.pipeline)]
    assert counted[case]["held"] == predicted


@pytest.mark.parametrize("case", [c for c in CASES if CASES[c][2].devices == 1])
def test_a_step_multiplies_exactly_what_is_predicted(counted, case):
    _, model, layout = CASES[case]
    predicted = of_iteration(model, layout, padded=True)
    repeated = predicted.recomputed
    if layout.recompute == "selective":
        # torch stops recomputing at the last tensor that backward needs: the scores. A fused
        # kernel repeats both products; the counter only sees unfused ones.
        repeated /= 2
    assert counted[case]["flops"] == predicted.model + repeated
