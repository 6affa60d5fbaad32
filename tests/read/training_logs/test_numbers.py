"""A number is read completely or not at all, never only its first digits."""

from __future__ import annotations

import pytest

from course_lib import read

WHOLE = {"3.5": 3.5, "-2": -2.0, "3.5E-01": 0.35, "7.": 7.0, ".5": 0.5, "inf": float("inf")}
NO_NUMBERS = ["3,5", "12,345.6", "1.#QNAN", "1.#INF", "3.5D+01", "1.2.3", "infra", "nanny"]


def loss_line(number: int, loss: str) -> str:
    return (
        f" iteration {number}/ 20 | elapsed time per iteration (ms): 12.5 | lm loss: {loss} | "
        "grad norm: 1.0 |\n"
    )


@pytest.mark.parametrize("text", WHOLE)
def test_whole_numbers(write, text):
    log = read.training_log(write("a.log", loss_line(1, "9.0") + loss_line(2, text)))
    assert log.iterations["lm_loss"].tolist() == [9.0, WHOLE[text]]


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_the_beginning_of_something_else_is_no_number(write, text):
    """This also holds after a line of the same form, whose numbers are read together with it."""
    log = read.training_log(write("a.log", loss_line(1, "9.0") + loss_line(2, text)))
    assert log.iterations["iteration"].tolist() == [1, 2]
    assert log.iterations["lm_loss"].isna().tolist() == [False, True]
    assert log.iterations["grad_norm"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("text", ["2,75", "12,75", "2.75.1"])
def test_a_step_with_a_comma_in_its_loss_has_none(write, text):
    log = read.training_log(
        write("a.log", f"step 3: loss {text}\nstep 4: loss 2.5, time 1,200ms\n")
    )
    assert log.iterations["iteration"].tolist() == [4]
    assert log.iterations["elapsed_ms"].tolist() == [1200.0]
