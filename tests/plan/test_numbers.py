"""What counts as a number, whatever type a notebook's arithmetic gave it."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from course_lib.plan.numbers import real, whole

THREES = [3, np.int64(3), np.uint8(3), np.array(3), np.array([3]), pd.Series([3]), pd.Index([3])]


@pytest.mark.parametrize("value", THREES, ids=lambda value: type(value).__name__)
def test_a_whole_number_is_one_in_every_form(value):
    assert whole(value) == 3
    assert type(whole(value)) is int
    assert real(value) == 3.0


@pytest.mark.parametrize(
    "value",
    [2.5, np.float32(2.5), np.float16(2.5), Fraction(5, 2), Decimal("2.5"), pd.Series([2.5])],
    ids=lambda value: type(value).__name__,
)
def test_a_real_number_is_one_in_every_form(value):
    assert real(value) == 2.5
    assert whole(value) is None


def test_a_tensor_of_one_element_holds_a_number():
    torch = pytest.importorskip("torch")
    assert real(torch.tensor(2.5)) == 2.5
    assert whole(torch.tensor([3])) == 3
    assert real(torch.tensor([1.0, 2.0])) is None


NO_NUMBERS = [
    True,
    np.bool_(True),
    "3",
    None,
    ...,
    1j,
    float("nan"),
    float("inf"),
    np.float32("nan"),
    10**400,
    np.array([1, 2]),
    pd.Series([1, 2]),
    pd.Series([], dtype=float),
    pd.Series(["3"]),
    [3],
    {"item": 3},
]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_finite_number_is_none(value):
    assert real(value) is None


@pytest.mark.parametrize("value", [3.0, np.float64(3.0), Fraction(3), True, "3", np.bool_(True)])
def test_a_whole_number_is_whole_by_type(value):
    assert whole(value) is None
