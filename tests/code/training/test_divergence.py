"""A training whose numbers leave their range ends with an error, and saves no such checkpoint."""

from __future__ import annotations

import one_run
import pytest

OVERFLOWING = "--fp16 --loss-scale 1e15 --train-iters 2 --log-interval 1"


def attempt(argv, broken_step=None):
    """Return a rank's error and its output before. The gradient of one step may be broken."""
    import contextlib
    import io

    import pretrain_gpt
    from parallel.data_parallel import Replicated

    reduce, calls = Replicated.reduce, []

    def breaking(self):
        calls.append(1)
        reduce(self)
        if len(calls) == broken_step:
            self.parts()[0].gradient.fill_(float("nan"))

    printed = io.StringIO()
    Replicated.reduce = breaking
    try:
        with contextlib.redirect_stdout(printed):
            pretrain_gpt.main(argv)
    except Exception as error:
        return f"{type(error).__name__}: {error}", printed.getvalue()
    finally:
        Replicated.reduce = reduce
    return "", printed.getvalue()


PLAIN = [*one_run.MODEL, "--log-interval", "1", "--train-iters", "4", "--save-interval", "3"]


def test_a_gradient_that_is_nan_ends_every_rank_and_nothing_is_saved(worlds, tmp_path):
    answers = worlds(2).run(attempt, [*PLAIN, "--save", str(tmp_path)], 2)
    for told, _ in answers:
        assert told.startswith("DivergedError: iteration 2: found nan or inf in the gradients. ")
    assert "".join(text for _, text in answers).count(" iteration        2/       4 |") == 1
    assert list(tmp_path.glob("iter_*")) == []


def test_the_check_can_be_switched_off(worlds):
    [(told, text)] = worlds(1).run(attempt, [*PLAIN, "--no-check-for-nan-in-loss-and-grad"], 2)
    assert told == ""
    assert " iteration        4/       4 |" in text


def test_a_step_that_overflows_at_a_fixed_scale_is_an_error_or_skipped(worlds):
    flags = [*PLAIN, *OVERFLOWING.split()]
    [(told, _)] = worlds(1).run(attempt, flags)
    assert told.startswith("DivergedError: iteration 1: found nan or inf in the gradients. ")
    [(told, text)] = worlds(1).run(attempt, [*flags, "--no-check-for-nan-in-loss-and-grad"])
    assert told == ""
    assert text.count("number of skipped iterations:   1") == 2


def test_a_dynamic_scale_looks_for_its_value_undisturbed(worlds):
    flags = [*PLAIN, "--fp16", "--initial-loss-scale", "1e15", "--hysteresis", "1"]
    [(told, text)] = worlds(1).run(attempt, flags)
    assert told == ""
    assert "number of skipped iterations:   1" in text


STUCK = "--fp16 --initial-loss-scale 1e15 --min-loss-scale 2.5e14 --hysteresis 1 --lr 1e-3"


def test_a_scale_that_cannot_fall_any_further_ends_the_run(worlds):
    """Two steps halve the scale, and ten more steps overflow with the smallest scale."""
    flags = [*PLAIN, *STUCK.split(), "--train-iters", "20"]
    [(told, text)] = worlds(1).run(attempt, flags)
    assert told.startswith("DivergedError: iteration 12: loss scale already at minimum (2.5e+14)")
    assert "the last 10 steps were skipped" in told
    assert " iteration       12/      20 |" in text


def test_a_run_does_not_end_well_in_a_step_that_no_scale_would_have_saved(worlds, tmp_path):
    flags = [*PLAIN, *STUCK.split(), "--train-iters", "4", "--save", str(tmp_path)]
    for told, _ in worlds(2).run(attempt, flags):
        assert "the last 2 steps were skipped" in told
    assert [path.name for path in tmp_path.glob("iter_*")] == ["iter_0000003"], "as it was before"
    [(told, _)] = worlds(1).run(attempt, [*flags[:-2], "--no-check-for-nan-in-loss-and-grad"])
    assert told == ""


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_the_reader_of_failures_knows_the_sentence(tmp_path, value):
    import torch

    from course_lib.read import failure
    from flags.arguments import parse_arguments
    from process.errors import DivergedError
    from training.divergence import FiniteCheck
    from training.optimizer import StepResult

    check = FiniteCheck(parse_arguments([]), torch.device("cpu"))
    good = torch.tensor(1.0, dtype=torch.float64)
    check.step(1, good * 1e300, StepResult(good, skipped=False))
    with pytest.raises(DivergedError) as error:
        check.step(2, good * float(value), StepResult(good, skipped=False))
    log = tmp_path / "out.log"
    log.write_text(f"[rank1]: pretrain_gpt.py: error: {error.value} (rank 1 on node1)\n")
    assert failure(log).cause == "nan_loss"
