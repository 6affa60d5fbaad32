"""Numbers that are written as texts, and units that are not the one that is asked for."""

from __future__ import annotations

import time
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest

from course_lib.teach.answers import number_written, why_no_number
from course_lib.teach.quantities.units import factor
from course_lib.teach.quantities.written import written_in
from course_lib.teach.slips import EXACT, Quantity

WRITTEN = {
    "63": 63, " ~63 ": 63, "about 2.5 GB": 2.5, "1,858,304 parameters": 1858304, "2,5": 2.5,
    "1.5·10^9": 1.5e9, "2**32": 2**32, "2^32": 2**32, "3e11 tokens": 3e11, "12_500": 12500,
    "−4 ms": -4, "= 7": 7, "1.5×": 1.5, ".5": 0.5, "31.2 %": 31.2, b"5": 5,
    "63, not 64": 63, "with 4, not 32": 4, "sixty-three": 63, "Two nodes": 2,
    "one hundred and twenty-eight": 128, "2³²": 2**32, "300 × 10⁹": 3e11, "1½": 1.5, "12/5": 2.4,
    "8388608 * 2**9": 2**32, "x = 2.5": 2.5, "node 5": 5, "It is 37.6 GB.": 37.6, "37.6 (GB)": 37.6,
    "2 MiB (2097152 bytes)": 2, "4 (as the text says)": 4, "np.float64(4.0)": 4,
    "tensor(4., dtype=torch.float64)": 4, "8 min 49.5 s": 529.5,
    "× 1.5": 1.5, "63 or more": 63, "63 or more micro-batches": 63, "63+": 63,
    "32.9 ± 0.5 %": 32.9, "97.6 MB per step and device": 97.6, "8m49s": 529,
    "2 to the power of 32": 2**32,
    "4.294.967.296": 2**32, "2^32 = 4294967296": 2**32, "16 × 0.125 MiB = 2 MiB": 2,
    "a = 3 + 4 = 7": 7, "3:2": 1.5, "1.5 : 1": 1.5, "0x100000000": 2**32, "1 << 32": 2**32,
    "12.0 + 12.0 + 12.0": 36, "20e6 / (96 * 2048 / 5.2)": 20e6 / (96 * 2048 / 5.2),
    "half": 0.5, "Three-quarters of the peak": 0.75, "two and a half hours": 2.5, "1 1/2": 1.5,
}  # fmt: skip
NO_NUMBER = [
    "",
    "many",
    "1 or 2",
    "4 (or 32)",
    "more than 5",
    "8 or 6, not 8",
    "half of 8",
    "two thirds of 9",
    "a third or a quarter",
    "seventeen hundred",
    "49 s 8 min",
    "9" * 5000,
    "not 63",
    "10**9999",
    "2**3**4",
    "1/0",
    "nan",
    "3 4",
    "5 or less",
    "4 = 4 or 5",
    "4 or 5 = 5",
    "8:49",
    "63 >= 62",
    "(36-40",
    "(9**999)**999",
    "1 << 9999",
    "(" * 150 + "1" + ")" * 49,
]


@pytest.mark.parametrize("text", WRITTEN)
def test_a_number_is_read_with_its_unit(text):
    assert written_in(text) == WRITTEN[text]


@pytest.mark.parametrize("text", NO_NUMBER)
def test_what_is_no_single_number_is_none(text):
    assert written_in(text) is None


@pytest.mark.parametrize(
    ("written", "wanted", "times"),
    [
        ("MB", "MB", 1), ("megabytes", "MB", 1), ("GiB", "MB", 2**30 / 1e6), ("s", "ms", 1e3),
        ("hours", "days", 1 / 24), ("micro-batches", "", 1), ("samples/s", "samples per second", 1),
        ("%", "", 0.01), ("billion tokens", "", 1e9), ("s", "", None), ("GB", "ms", None),
        ("%", "MB", None), ("GPU-hours", "device-hours", 1), ("tflops", "FLOP/s", 1e12),
        ("h", "device-seconds", 3600), ("teraflop/s", "FLOP/s", 1e12), ("tflops/s", "TFLOP/s", 1),
        ("Mbit", "MB", 1 / 8), ("B", "bytes", 1), ("B", "MB", 1e-6), ("B", "millions", 1e3),
        ("B tokens", "", 1e9), ("samples/min", "samples per second", 1 / 60),
    ],
)  # fmt: skip
def test_units_lead_to_each_other_or_not(written, wanted, times):
    assert factor(written, wanted) == times


def test_a_written_unit_is_converted():
    wanted = Quantity(right=2000.0, unit="MB")
    assert wanted.in_its_unit(number_written("2 GB")) == 2000
    assert wanted.in_its_unit(number_written(["2e9 bytes"])) == 2000
    assert wanted.in_its_unit(number_written("2 s")) is None
    assert wanted.in_its_unit(5.0) == 5


@pytest.mark.parametrize(
    "span",
    [timedelta(seconds=90), np.timedelta64(90, "s"), pd.Timedelta(seconds=90),
     pd.Series([pd.Timedelta(seconds=90)]), np.array([90], "timedelta64[s]")],
)  # fmt: skip
def test_a_span_of_time_has_its_unit(span):
    assert Quantity(right=1.5, unit="minutes").in_its_unit(number_written(span)) == 1.5


@pytest.mark.parametrize(
    "missing", [np.timedelta64("NaT"), np.ma.masked, np.ma.array([5], mask=[1])]
)
def test_a_missing_value_is_no_number(missing):
    assert number_written(missing) is None


def test_a_masked_array_may_hold_a_number():
    assert number_written(np.ma.array([5], mask=[0])) == 5


def test_a_long_exact_number_may_be_told_with_fewer_digits():
    wanted = Quantity(right=2.0**32, share=EXACT)
    assert all(map(wanted.is_met_by, (2**32, 4.295e9, 4.29e9, 4.2949673e9)))
    assert not any(map(wanted.is_met_by, (2**32 + 1, 4.2e9, 4.28e9, 2**31)))


@pytest.mark.parametrize("text", ["a " * 999, "9" * 1999, "1*" * 999, "1 s " * 499, "one " * 499])
def test_long_texts_are_read_soon(text):
    began_s = time.process_time()
    written_in(text)
    assert time.process_time() - began_s < 2


def test_beyond_a_small_share_only_a_rounded_number_is_right():
    wanted = Quantity(right=37.58)
    assert all(map(wanted.is_met_by, (37.58, 37.6, 38, 37.4)))
    assert not any(map(wanted.is_met_by, (37.11, 37.0001, 36, 38.2)))
    assert not Quantity(right=2.0**32, share=EXACT).is_met_by(2**32 - 1)


def test_two_slips_at_once_are_told_both():
    sent = Quantity(right=1000.0, unit="MB", ring=4, own=((10.0, "That is one iteration."),))
    for given, words in ((1000 / 1.5, "travels more than once"), (10, "That is one iteration.")):
        said = sent.explain(given / 1.048576)
        assert said.startswith("Two things at once: ")
        assert words in said
        assert "these are MiB" in said


def test_two_slips_that_everybody_makes_meet_a_number_by_chance():
    held = Quantity(right=36, unit="device-seconds", counts={"devices": 4, "jobs": 3})
    assert held.explain(6) == ""
    sent = Quantity(right=37.58, unit="GB", ring=8, bytes_each=2)
    assert sent.explain(128.8) == ""


def test_a_unit_is_likelier_than_two_counts_that_make_it_up():
    weight = Quantity(right=2.0, unit="MiB", counts={"inputs": 16, "widths": 64})
    assert "these are KiB" in weight.explain(2048)


def test_the_digits_are_right_only_where_the_number_would_be():
    rate = Quantity(right=529.4, unit="ms", share=0.005)
    assert "The digits are right" in Quantity(right=529.4, share=0.005).explain(5.294)
    assert "these are s;" in rate.explain(0.5294)
    for near in (5.377, 0.5377, 0.5377e-3):
        assert rate.explain(near) == ""


def test_one_sentence_is_not_told_twice():
    held = Quantity(right=36, own=((12, "That is one job."),) * 3)
    assert held.explain(12) == "That is one job."


def test_where_much_is_right_all_that_was_meant_is_told():
    of_all = Quantity(right=33, share=0.05, own=((42.5, "One."), (43.1, "Other.")))
    assert of_all.explain(42.9) == "Other.\nOr: One."
    assert of_all.explain(42.5) == "One."


def test_what_is_given_and_what_is_a_part_is_told_so():
    wanted = Quantity(right=124.4, known={"the width": 768}, parts={"the words": 38.6})
    assert "That is the width" in wanted.explain(768)
    assert "You left something out: the words" in wanted.explain(85.8)
    assert "You counted something twice: the words" in wanted.explain(163)
    assert "one part alone: the words" in wanted.explain(38.6)


@pytest.mark.parametrize(
    ("given", "words"),
    [(0, "0 and less"), (5, "Which count"), (-3, "0 and less"), (30, "off by 12"),
     (9e5, "times too much"), (1e-6, "times too little"), (2, "rounded too far"),
     (2.4, "near enough"), (6, "")],
)  # fmt: skip
def test_a_size_that_no_slip_explains_is_told_what_it_looks_like(given, words):
    said = Quantity(right=2.5, unit="" if given == 5 else "GB").at_last(given)
    assert words in said
    assert bool(said) == bool(words)


def test_a_quarter_of_an_hour_is_of_an_hour():
    assert written_in("a quarter of an hour").unit == "hour"


@pytest.mark.parametrize(
    ("written", "wanted", "times"),
    [
        ("ns", "s", 1e-9), ("μs", "s", 1e-6), ("microsec", "ms", 1e-3), ("PB", "GB", 1e6),
        ("TiB", "GB", 2**40 / 1e9), ("Tbit", "GB", 125), ("GFLOP", "TFLOP/s", 1e-3),
        ("EFLOP/s", "TFLOP/s", 1e6), ("decades", "days", 3652.5),
        ("node-hours", "device-hours", None),
        ("GPU-minutes", "device-hours", 1 / 60), ("device minutes", "device-hours", 1 / 60),
        ("million bytes", "MB", 1), ("billion bytes", "GB", 1), ("trillion FLOP/s", "FLOP/s", 1e12),
        ("MB/sample", "GB", 1e-3), ("GB/s", "GB", None), ("Gbps", "GB", None),
        ("MB per second", "MB", None), ("GFLOPS/GPU", "TFLOP/s", 1e-3), ("tokens/s", "s", None),
        ("TFLOP/s per GPU", "FLOP/s", 1e12), ("TFLOP per s", "TFLOP/s", 1), ("TF/s", "TFLOP/s", 1),
        ("h/epoch", "days", 1 / 24), ("tokens", "samples", None), ("steps", "minutes", None),
        ("sequences", "samples", 1), ("ms", "micro-batches", None), ("밀리초", "s", 1e-3),
        ("메가바이트", "GB", 1e-3), ("시간", "days", 1 / 24), ("억", "", 1e8),
        ("만 스텝", "steps", 1e4),
        ("조각", "", 1), ("seconds in all", "ms", 1e3), ("million tokens", "tokens", 1e6),
    ],
)  # fmt: skip
def test_units_are_known_in_many_spellings_and_not_taken_for_words(written, wanted, times):
    found = factor(written, wanted)
    assert found is None if times is None else found == pytest.approx(times, rel=1e-12)


@pytest.mark.parametrize("text", ["ca. 8000", "approx. 8000", "≥ 8000", "n >= 8000", "x8000"])
def test_signs_of_about_and_at_least_are_words(text):
    assert written_in(text) == 8000


def test_a_count_of_parameters_is_one_of_millions_where_it_is_large():
    wanted = Quantity(right=124.4, unit="millions")
    for text in ("124,400,000 parameters", "124.4e6 parameters", "124.4 parameters", "124.4 M"):
        assert wanted.is_met_by(wanted.in_its_unit(number_written(text))), text
    assert not wanted.is_met_by(wanted.in_its_unit(number_written("124,400,000")))


def test_a_text_with_two_numbers_is_told_to_decide():
    assert "Decide for one" in why_no_number("4 or 32")
    assert "Decide" not in why_no_number("more than 5")


def test_right_digits_with_another_unit_are_told_so():
    wanted = Quantity(right=5974.0, unit="ms")
    said = wanted.right_but_for_the_unit(number_written("5974 s"))
    assert said == "The number is right in ms. You wrote s."
    assert "right in µs" in wanted.right_but_for_the_unit(number_written("5974000 minutes"))
    assert Quantity(right=6).right_but_for_the_unit(number_written("6 %")) == ""  # no unit to name
    for other in ("5.974 s", "5974 ms", "77 s", 5974.0, "5974 GB"):
        given = number_written(other)
        assert wanted.right_but_for_the_unit(given) == "", other


def test_one_too_few_of_what_divides_is_told_as_that():
    days = Quantity(right=100.0, unit="days", shared_by={"devices": 16})
    assert "for 15 devices" in days.explain(100 * 16 / 15)
    assert "for 17 devices" in days.explain(100 * 16 / 17)
    work = Quantity(right=100.0, counts={"samples": 16})
    assert "for 15 samples" in work.explain(100 * 15 / 16)


def test_two_slips_that_cancel_or_make_a_plain_factor_are_not_told():
    hours = Quantity(right=64.0, counts={"nodes": 16, "devices of a node": 4}, share=EXACT)
    assert hours.explain(64.1) == ""
    assert "Two things" not in Quantity(right=3.2, counts={"a": 4, "b": 8}).explain(6.4)


def test_of_several_right_values_the_one_that_was_given_is_the_measure():
    wanted = Quantity(right=7.587, unit="days", share=0.015)
    assert wanted.or_as(6.63, given=6.6).is_met_by(6.6)
    assert not wanted.or_as(6.63, given=7.06).is_met_by(7.06)
    assert wanted.or_as(6.63, given=number_written("1.084 weeks")).right == 7.587
