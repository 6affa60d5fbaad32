"""If a check gets anything other than a run, it answers with a sentence."""

from __future__ import annotations

import shutil

import numpy as np
import pandas as pd
import pytest

from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes import gpt, links, shell
from course_lib.teach import check

from .answers_to_try import told

# Stands for the run that is handed in.
RUN = object()
CHECKS = [
    (check.ex00_local, RUN),
    (check.ex00_device_seconds, 36, [RUN]),
    (check.ex01_chunks, RUN, RUN),
    (check.ex02b_program, RUN),
    (check.ex02b_script, RUN),
    (check.ex03_wide, RUN),
    (check.ex03_megabytes, 1, RUN),
    (check.ex04_reduce_scatter, RUN),
    (check.ex04_hierarchical, RUN, RUN, 1.5),
    (check.ex05_place, "reading", RUN),
    (check.ex05_cure, RUN),
    (check.ex05_waiting, 1, RUN),
    (check.ex06_longer, RUN, RUN),
    (check.ex07_gated, RUN),
    (check.ex07b_hybrid, RUN),
    (check.ex07b_crossing, 1, RUN),
    (check.ex08_scaler, RUN),
    (check.ex08b_blocks, RUN),
    (check.ex09_fits, RUN, RUN, 80),
    (check.ex09_checkpoint, RUN),
    (check.ex10_accumulate, RUN),
    (check.ex11_clip, RUN),
    (check.ex11b_parallelize, RUN),
    (check.ex12_sixteen, RUN, RUN),
    (check.ex13b_ring, RUN),
    (check.ex13_column, RUN),
    (check.ex13_row, RUN),
    (check.ex13_attention, RUN),
    (check.ex13_pipeline, RUN),
    (check.ex14_sharded, 1, RUN, RUN),
    (check.ex15_fastest, RUN),
    (check.ex15_other, RUN, RUN, RUN),
]
TRAINED = (
    "using world size: 4, data-parallel-size: {data}, tensor-model-parallel size: 1, "
    "pipeline-model-parallel size: 1\n"
    " iteration       10/      10 | consumed samples:           80 | elapsed time per iteration "
    "(ms): 83.0 | global batch size:     8 | lm loss: 6.282860E+00 |\n"
)


@pytest.fixture
def wrong_runs(finished):
    """Runs that lack what most checks read."""
    small = {"nodes": 2, "gpus_per_node": 2, "micro_batch": 2}
    hello = shell.recipe("hello", "echo hello", nodes=2, gpus_per_node=2)
    without_log = finished(gpt.recipe("without-log", **small), "")
    without_log.log_file.unlink()
    deleted = finished(hello, "hello\n")
    assert deleted.state == "COMPLETED"
    shutil.rmtree(deleted.folder)
    made = [
        finished(hello, "hello\n"),
        finished(hello, "hello\n", exit_code=1),
        finished(hello, "", exit_code=None),
        finished(hello, TRAINED.format(data=4)),
        finished(gpt.recipe("silent", **small), ""),
        finished(gpt.recipe("short", **small), TRAINED.format(data=4)),
        finished(gpt.recipe("alone", **small), TRAINED.format(data=1)),
        finished(gpt.recipe("full", recompute="full", zero=1, **small), TRAINED.format(data=4)),
        finished(
            gpt.recipe(
                "second", profile=(8, 10), iterations=12, planted_bottleneck=1,
                memory=(8, 10), **small,
            ),
            TRAINED.format(data=4),
        ),
        finished(links.recipe("roads", nodes=2, gpus_per_node=2), ""),
    ]  # fmt: skip
    damaged = finished(links.recipe("damaged", nodes=2, gpus_per_node=2), "")
    (damaged.folder / "links.json").write_text("{")
    for folder in ("profile", "memory"):
        (made[-2].folder / folder).mkdir()
    return [*made, without_log, deleted, damaged]


def with_run(value, run):
    if isinstance(value, list):
        return [with_run(item, run) for item in value]
    return run if value is RUN else value


@pytest.mark.parametrize(("check", "given"), [(first, rest) for first, *rest in CHECKS])
def test_what_is_no_run_is_told_so(workspace, check, given):
    things = [
        None, "", "dp4", 5, float("nan"), True, [], {}, (), object(), print, np.zeros(3),
        pd.DataFrame({"state": [1]}), pd.Series([1, 2]), Recipe(name="a", commands="hostname"),
        gpt.recipe("a", nodes=...), ...,
    ]  # fmt: skip
    for thing in things:
        said = told(lambda _, at=thing: check(*with_run(given, at)), None)
        assert said, thing
        assert said.startswith("exercise ")


@pytest.mark.parametrize(("check", "given"), [(first, rest) for first, *rest in CHECKS])
def test_a_run_that_lacks_what_the_check_reads_is_told_so(wrong_runs, check, given):
    for run in wrong_runs:
        said = told(lambda _, at=run: check(*with_run(given, at)), None)
        assert said, run
        assert said.startswith("exercise ")
