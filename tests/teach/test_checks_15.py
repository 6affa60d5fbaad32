"""The checks of lesson 15 accept right answers and name the mistake in wrong answers."""

from __future__ import annotations

import itertools

import pytest

from course_lib.lab import bench
from course_lib.lab.bench.results import Result, measured
from course_lib.read import training_log
from course_lib.teach import check
from course_lib.teach.checklist import NotYet

LARGE = bench.case("175")


pytestmark = pytest.mark.usefixtures("workspace")


def by_loops(nodes, limit_gib):
    best = None
    for tensor in (1, 2, 4, 8, 16):
        for pipeline in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 96):
            for micro_batch in (1, 2):
                data = 4 * nodes / tensor / pipeline
                steps = 96 / max(data, 1) / micro_batch
                if data < 1 or data != int(data) or steps < 1 or steps != int(steps):
                    continue
                case = LARGE.but(nodes=nodes, tensor=tensor, pipeline=pipeline,
                                 micro_batch=micro_batch, accumulation=int(steps))  # fmt: skip
                plan = bench.plan(case)
                if plan.estimate.device_gib > limit_gib:
                    continue
                if best is None or plan.time_to_report_s < best.time_to_report_s:
                    best = plan
    return best.case


def plans(nodes, tensors=(1, 2, 4, 8, 16), micro_batches=(1, 2), batch=96):
    """Yield all plans that a case accepts, by trying."""
    for tensor, pipeline, micro in itertools.product(tensors, range(1, 97), micro_batches):
        try:
            case = LARGE.but(nodes=nodes, tensor=tensor, pipeline=pipeline, micro_batch=micro)
            steps = batch // (case.layout.data * micro)
            case = case.but(nodes=nodes, accumulation=steps)
        except ValueError:
            continue
        if steps and case.layout.global_batch == batch:
            yield bench.plan(case)


def by_trying(nodes, limit_gib):
    fitting = [one for one in plans(nodes) if one.estimate.device_gib <= limit_gib]
    return min(fitting, key=lambda one: one.time_to_report_s)


def with_more_sizes(nodes, limit_gib):
    found = plans(nodes, (1, 2, 4, 8, 16, 32), (1, 2, 3, 4))
    return min((p.time_to_report_s, p.case.layout.tensor, p.case.layout.pipeline, p.case)
               for p in found if p.estimate.device_gib <= limit_gib)[-1]  # fmt: skip


def by_sorting(nodes, limit_gib):
    for one in sorted(plans(nodes), key=lambda one: -one.tokens_per_s):
        if one.estimate.device_gib <= limit_gib:
            return one.case
    return None


@pytest.mark.parametrize("search", [by_loops, by_trying, with_more_sizes, by_sorting])
def test_a_search_passes_in_any_style(search, capsys):
    check.ex15_fastest(search)
    assert capsys.readouterr().out.count("✓") == 5


def fits(plan, gib):
    return plan.estimate.device_gib <= gib


def quickest(found):
    return min(found, key=lambda one: one.time_to_report_s)


WRONG = {
    "without the limit": (lambda nodes, gib: quickest(plans(nodes)), "the layout fits"),
    "least memory": (
        lambda nodes, gib: min(plans(nodes), key=lambda one: one.estimate.device_gib),
        "Does it compare times?",
    ),
    "slowest": (
        lambda nodes, gib: max(
            (one for one in plans(nodes) if fits(one, gib)), key=lambda one: one.time_to_report_s
        ),
        "no layout that fits is faster",
    ),
    "one tensor size": (
        lambda nodes, gib: quickest(p for p in plans(nodes, (8,)) if fits(p, gib)),
        "tensor 4 × pipeline 24",
    ),
    "one micro batch": (
        lambda nodes, gib: quickest(p for p in plans(nodes, micro_batches=(1,)) if fits(p, gib)),
        "with micro batch 2 also fits",
    ),
    "none in a node": (
        lambda nodes, gib: next((p for p in plans(nodes, (1, 2)) if fits(p, gib)), None),
        "does it find no result here? There is one.",
    ),
    "one layout": (
        lambda nodes, gib: LARGE.but(nodes=64, pipeline=16, accumulation=48),
        "the given nodes",
    ),
    "the first that fits": (
        lambda nodes, gib: next(one for one in plans(nodes) if fits(one, gib)),
        "Does your search try this layout?",
    ),
    "another batch": (
        lambda nodes, gib: quickest(p for p in plans(nodes, batch=192) if fits(p, gib)),
        "with a global batch of 192",
    ),
    "another model": (lambda nodes, gib: bench.case("13"), "Your case is 13 B on 8 nodes"),
    "nothing": (lambda nodes, gib: None, "Your function returned nothing"),
    "a layout": (lambda nodes, gib: LARGE.layout, "return a case"),
    "an error": (lambda nodes, gib: LARGE.but(nodes=nodes, pipeline=7), "RecipeError"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_search_gets_a_hint(name):
    search, hint = WRONG[name]
    with pytest.raises(NotYet) as unmet:
        check.ex15_fastest(search)
    assert hint in str(unmet.value)


@pytest.mark.parametrize(("answer", "hint"), [(..., "Replace the ..."), (LARGE, "It is Case(")])
def test_what_is_no_search_is_refused(answer, hint):
    with pytest.raises(NotYet) as unmet:
        check.ex15_fastest(answer)
    assert hint in str(unmet.value)


class Finished:
    """Run with the given text as its log, so that no job is needed."""

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
    assert capsys.readouterr().out.count("✓ your answer reports the shorter time") == 2


@pytest.mark.parametrize("said", ["other", "Other"])
def test_the_shorter_one_may_be_named(tmp_path, said):
    mine, other = with_pipeline(tmp_path), measured("box", Finished(tmp_path))
    check.ex15_other(other, mine, said)


@pytest.mark.parametrize("said", ["both", "not other", "mine or other", "mine"])
def test_a_name_of_neither_or_of_the_longer_is_refused(tmp_path, said):
    with pytest.raises(NotYet) as unmet:
        check.ex15_other(measured("box", Finished(tmp_path)), with_pipeline(tmp_path), said)
    assert ("give the check what bench.run(…) returned" in str(unmet.value)) == (said != "mine")


def test_both_results_are_refused(tmp_path):
    mine, other = with_pipeline(tmp_path), measured("box", Finished(tmp_path))
    with pytest.raises(NotYet):
        check.ex15_other(other, mine, (other, mine))


def test_the_slower_of_the_two_is_not_the_shorter_one(tmp_path):
    mine, other = with_pipeline(tmp_path), measured("box", Finished(tmp_path))
    for shorter, hint in ((mine, "and the other"), (..., "Replace the ..."), (5, "It is 5 now")):
        with pytest.raises(NotYet) as unmet:
            check.ex15_other(other, mine, shorter)
        assert hint in str(unmet.value)


def test_what_is_not_that_run_is_told_why(tmp_path):
    wrong = {
        "Replace the ...": ...,
        "give the check what bench.run(…) returned": Finished(tmp_path),
        "Still to fill in: tensor": bench.case("box").but(tensor=...),
        "This result is planned": bench.plan("13"),
        "Which of the three are 1?": measured("box", Finished(tmp_path, tensor=2, pipeline=2)),
        "It is 32.": measured("box", Finished(tmp_path, batch=32)),
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
