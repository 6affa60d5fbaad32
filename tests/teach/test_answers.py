"""Numbers are read with and without units, and an amount knows the cause of a wrong number."""

from __future__ import annotations

import time
from datetime import timedelta

import numpy as np
import pytest

from course_lib.teach.answers import (
    EXACT,
    Amount,
    in_other_unit,
    number_written,
    unit_factor,
    why_no_number,
)

WRITTEN = {
    "63": 63, " ~63 ": 63, "about 2.5 GB": 2.5, "1,858,304 parameters": 1858304, "2,5": 2.5,
    "3e11 tokens": 3e11, "12_500": 12500, "−4 ms": -4, "= 7": 7, "1.5×": 1.5, ".5": 0.5,
    "31.2 %": 31.2, "x = 2.5": 2.5, "ca. 8000": 8000, "37.6 GB.": 37.6,
}  # fmt: skip
NO_NUMBER = [
    "", "many", "1 or 2", "more than 5", "not 63", "5 or less", "3 4", "8:49", "1/0", "nan",
    "9" * 5000, "sixty-three", "8 min 49 s",
]  # fmt: skip


@pytest.mark.parametrize("text", WRITTEN)
def test_a_number_is_read_with_its_unit(text):
    assert number_written(text) == WRITTEN[text]


@pytest.mark.parametrize(
    "answer", [*NO_NUMBER, timedelta(seconds=90), np.timedelta64("NaT"), np.ma.masked, b"5"]
)
def test_what_is_no_single_number_is_none(answer):
    assert number_written(answer) is None
    assert why_no_number(answer)


@pytest.mark.parametrize("text", ["a " * 900, "9" * 1999, "1*" * 999, "1 s " * 499, "=" * 1999])
def test_long_texts_are_read_soon(text):
    began_s = time.process_time()
    number_written(text)
    assert time.process_time() - began_s < 2


FACTORS = {
    ("MB", "MB"): 1, ("megabytes", "MB"): 1, ("GiB", "MB"): 2**30 / 1e6, ("s", "ms"): 1e3,
    ("hours", "days"): 1 / 24, ("micro-batches", ""): 1, ("samples/s", "samples per second"): 1,
    ("%", ""): 0.01, ("%", "MB"): None, ("billion tokens", ""): 1e9, ("B tokens", ""): 1e9,
    ("s", ""): None, ("GB", "ms"): None, ("GPU-hours", "device-hours"): 1,
    ("h", "device-seconds"): 3600, ("GPU-minutes", "device-hours"): 1 / 60,
    ("tflops", "TFLOP/s"): 1, ("TFLOP/s per GPU", "FLOP/s"): 1e12, ("Gbit", "GB"): 1 / 8,
    ("B", "bytes"): 1, ("B", "millions"): 1e3, ("in all", "ms"): 1,
    ("seconds in all", "ms"): 1e3, ("밀리초", "s"): 1e-3, ("메가바이트", "GB"): 1e-3,
}  # fmt: skip


@pytest.mark.parametrize(("written", "wanted"), FACTORS)
def test_units_lead_to_each_other_or_not(written, wanted):
    found, times = unit_factor(written, wanted), FACTORS[written, wanted]
    assert found is None if times is None else found == pytest.approx(times, rel=1e-12)


def test_a_written_unit_is_converted():
    wanted = Amount(right=2000.0, unit="MB")
    assert wanted.in_unit(number_written("2 GB")) == 2000
    assert wanted.in_unit(number_written(np.array(["2e9 bytes"]))) == 2000
    assert wanted.in_unit(number_written("2 s")) is None
    assert wanted.in_unit(5.0) == 5


def test_a_large_count_of_parameters_is_shown_in_millions():
    wanted = Amount(right=124.4, unit="millions")
    for text in ("124,400,000 parameters", "124.4e6 parameters", "124.4 parameters", "124.4 M"):
        assert wanted.is_met_by(wanted.in_unit(number_written(text))), text
    assert not wanted.is_met_by(wanted.in_unit(number_written("124,400,000")))


def test_a_long_exact_number_may_be_told_with_fewer_digits():
    wanted = Amount(right=2.0**32, share=EXACT)
    assert all(map(wanted.is_met_by, (2**32, 4.295e9, 4.29e9, float(np.float32(2**32)))))
    assert not any(map(wanted.is_met_by, (2**32 + 1, 2**32 - 1, 4.2e9, 4.28e9, 2**31)))


def test_beyond_a_small_share_only_a_rounded_number_is_right():
    wanted = Amount(right=37.58)
    assert all(map(wanted.is_met_by, (37.58, 37.6, 38, 37.4)))
    assert not any(map(wanted.is_met_by, (37.11, 37.0001, 36, 38.2)))


def test_other_right_values_are_not_measured_roughly():
    wanted = Amount(right=15, share=0.05, also=(11,))
    assert all(map(wanted.is_met_by, (15.6, 11.05)))
    assert not any(map(wanted.is_met_by, (11.4, 16)))


def test_a_listed_slip_is_named_by_its_number():
    wanted = Amount(right=1000.0, unit="MB", slips=(in_other_unit(1000.0, "MB", "GB"), (40, "A.")))
    assert "right in GB. The exercise asks for MB" in wanted.slip(1.0)
    assert wanted.slip(40.1) == "A."
    assert wanted.slip(41) == wanted.slip(2000) == wanted.slip(1e6) == ""


def test_no_slip_is_named_if_two_lead_to_the_same_number():
    wanted = Amount(right=100.0, slips=((42.5, "One."), (42.6, "Other."), (7, "A."), (7, "A.")))
    assert wanted.slip(42.5) == wanted.slip(42.6) == ""
    assert wanted.slip(7) == "A."


def test_no_slip_is_named_if_the_number_may_be_the_right_one_rounded():
    wanted = Amount(right=1.5, slips=((2, "Twice."), (1.51, "Near.")))
    assert wanted.slip(2) == wanted.slip(1.51) == ""
