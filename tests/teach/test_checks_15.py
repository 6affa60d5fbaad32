"""The checks of lesson 15 pass right answers and tell wrong ones what is wrong with them."""

from __future__ import annotations

import pytest

from course_lib.lab import bench
from course_lib.lab.bench.results import Result, measured
from course_lib.read import training_log
from course_lib.teach import check
from course_lib.teach.checklist import NotYet

from .answers_to_try import Hostile, hold

LARGE = bench.case("175")
RIGHT_S = 20e6 / (96 * 2048 / 5.2)


pytestmark = pytest.mark.usefixtures("workspace")


@pytest.mark.parametrize(("tensor", "pipeline", "steps"), [(8, 16, 48), (8, 8, 24), (16, 8, 48)])
def test_every_layout_that_fits_the_week_passes(tensor, pipeline, steps, capsys):
    check.ex15_week(LARGE.but(nodes=64, tensor=tensor, pipeline=pipeline, accumulation=steps))
    assert "✓ it fits into the memory of a device" in capsys.readouterr().out


def test_the_plan_of_a_layout_stands_for_it():
    week = LARGE.but(nodes=64, pipeline=16, accumulation=48)
    check.ex15_week(bench.plan(week))
    check.ex15_week([week])


@pytest.mark.parametrize(
    ("case", "hint"),
    [
        (..., "Replace the ... in the cell above"),
        (64, "This is int"),
        (LARGE.but(nodes=64, tensor=...), "Still to fill in: tensor"),
        (bench.case("13").but(nodes=16), "the model of 13 B"),
        (LARGE, "It uses 96, with a micro batch of 1. Give nodes=64"),
        (
            LARGE.but(nodes=64, micro_batch=2, accumulation=12),
            "It uses 64, with a micro batch of 2",
        ),
        (
            LARGE.but(nodes=64),
            "leave a data-parallel size of 4, and each data rank",
        ),
        (
            LARGE.but(nodes=64, tensor=4, pipeline=8, accumulation=12),
            "needs 63.2 of 39.6 GiB, and the largest part is",
        ),
    ],
)
def test_a_layout_that_misses_the_week_is_told_why(case, hint):
    with pytest.raises(NotYet) as unmet:
        check.ex15_week(case)
    assert hint in str(unmet.value)


def test_what_refuses_to_be_shown_is_no_case():
    with pytest.raises(NotYet) as unmet:
        check.ex15_week(Hostile())
    assert "This is Hostile" in str(unmet.value)


class Finished:
    """A run whose log is the given text: what the check looks at, without the seconds of a job."""

    recipe, ended, ok, state, error = object(), True, True, "COMPLETED", ""
    site = {"name": "box"}  # noqa: RUF012

    def __init__(self, folder, tensor=4, pipeline=1, batch=4, base_ms=50):
        self.name, self.log_file = "gpt-box", folder / "out.log"
        lines = [
            f" iteration {n}/ 10 | elapsed time per iteration (ms): {base_ms + n} | "
            f"global batch size: {batch} | lm loss: 9.0 |"
            for n in range(1, 13)
        ]
        world = (
            f"using world size: 4, data-parallel size: {4 // tensor // pipeline}, "
            f"context-parallel size: 1, tensor-model-parallel size: {tensor}, "
            f"pipeline-model-parallel size: {pipeline}"
        )
        self.log_file.write_text("\n".join([world, *lines]))
        self.log = training_log(self.log_file)

    def require(self):
        return self


def with_pipeline(tmp_path, per_iteration_ms=90):
    folder = tmp_path / "mine"
    folder.mkdir(exist_ok=True)
    return measured("box", Finished(folder, tensor=2, pipeline=2, base_ms=per_iteration_ms))


def test_a_measured_run_of_pure_tensor_parallelism_passes(tmp_path, capsys):
    mine, other = with_pipeline(tmp_path), measured("box", Finished(tmp_path))
    check.ex15_other(other, mine, other)
    slower = with_pipeline(tmp_path, 20)
    check.ex15_other(other, slower, slower)
    assert capsys.readouterr().out.count("✓ it reports the shorter time") == 2


@pytest.mark.parametrize("said", ["other", "Other", ["other"]])
def test_the_shorter_one_may_be_named(tmp_path, said):
    mine, other = with_pipeline(tmp_path), measured("box", Finished(tmp_path))
    check.ex15_other(other, mine, said)
    check.ex15_other(other, mine, [other])


@pytest.mark.parametrize("said", ["both", "not other", "mine or other", "mine"])
def test_a_name_of_neither_or_of_the_longer_is_refused(tmp_path, said):
    with pytest.raises(NotYet) as unmet:
        check.ex15_other(measured("box", Finished(tmp_path)), with_pipeline(tmp_path), said)
    assert ("Say mine or other" in str(unmet.value)) == (said != "mine")


def test_both_results_are_refused(tmp_path):
    mine, other = with_pipeline(tmp_path), measured("box", Finished(tmp_path))
    with pytest.raises(NotYet):
        check.ex15_other(other, mine, (other, mine))


def test_the_slower_of_the_two_is_not_the_shorter_one(tmp_path):
    mine, other = with_pipeline(tmp_path), measured("box", Finished(tmp_path))
    for shorter, hint in ((mine, "and the other"), (..., "Replace the ..."), (5, "This is int")):
        with pytest.raises(NotYet) as unmet:
            check.ex15_other(other, mine, shorter)
        assert hint in str(unmet.value)


def test_what_is_not_that_run_is_told_why(tmp_path):
    wrong = {
        "Replace the ...": ...,
        "This is Finished": Finished(tmp_path),
        "This is Unfinished": bench.case("box").but(tensor=...),
        "This result is planned": bench.plan("13"),
        "which of them are 1?": measured("box", Finished(tmp_path, tensor=2, pipeline=2)),
        "The iteration lines say 32": measured("box", Finished(tmp_path, batch=32)),
    }
    for hint, result in wrong.items():
        with pytest.raises(NotYet) as unmet:
            check.ex15_other(result, with_pipeline(tmp_path), result)
        assert hint in str(unmet.value)


def test_a_run_that_failed_shows_its_error(tmp_path):
    failed = Finished(tmp_path)
    failed.ok, failed.error = False, "node2 went away"
    with pytest.raises(NotYet, match="node2 went away"):
        result = Result(bench.case("box"), "measured", "box", 1.0, run=failed)
        check.ex15_other(result, with_pipeline(tmp_path), result)


def test_the_time_to_report_holds_against_all_kinds_of_answers():
    wrong = {
        RIGHT_S / 96: "already counts all micro-batches", RIGHT_S * 96: "Tokens per second first",
        RIGHT_S / 60: "right in minutes. The exercise asks for s", 575: "You answered 575 s",
        RIGHT_S * 1.048576: "20 × 10⁶, not 20 × 2²⁰", RIGHT_S / 5.2: "the number of iterations",
    }  # fmt: skip
    hold("report_s", check.ex15_report, RIGHT_S, wrong, accepted=[529, "529 s", "8.82 minutes"])
