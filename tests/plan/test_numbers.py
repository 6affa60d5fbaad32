"""Values that count as numbers, of any type that arithmetic in a notebook returns."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from course_lib import plan
from course_lib.plan.numbers import real, whole
from course_lib.plan.schedules.steps import orders

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


def whole_of(made):
    """Yield every number in a dataclass and in the dataclasses inside it."""
    for name, value in vars(made).items():
        if hasattr(value, "__dataclass_fields__"):
            yield from whole_of(value)
        elif not isinstance(value, bool | str | tuple | None):
            yield name, value


@pytest.mark.parametrize("number", [np.int64, np.uint16, np.int32, lambda n: pd.Series([n])])
def test_what_takes_an_int_takes_every_whole_number_and_keeps_pythons_own(number):
    n = number
    made = [
        plan.Layout(
            n(2), n(1), n(2), virtual=n(2), micro_batch=n(2), global_batch=n(16), zero=n(1)
        ),
        plan.Model("m", n(2), n(768), n(12), n(128), vocabulary=n(512), kv_groups=n(6)),
        plan.Model(
            "v", n(2), n(64), n(4), n(1), patches=plan.Patches(n(64), n(64), n(8), n(3), n(3))
        ),
        plan.cluster("juwels-booster", devices=n(32)),
        plan.cluster("selene").but(nodes=n(4), processors=n(0)),
        plan.box(n(2), n(2), processors=n(2)),
    ]
    kinds = {type(value) for one in made for _, value in whole_of(one)}
    assert kinds <= {int, float}
    assert made[0] == plan.Layout(2, 1, 2, virtual=2, micro_batch=2, global_batch=16, zero=1)
    assert made[3] == plan.cluster("juwels-booster", devices=32)
    assert orders("interleaved", n(2), n(4), n(2)) == orders("interleaved", 2, 4, 2)
    assert plan.nccl_log(n(2), n(2), adapters=n(1)) == plan.nccl_log()
    one = plan.preset("gpt2")
    assert plan.search(one, made[4], n(64)).best == plan.search(one, made[4], 64).best


@pytest.mark.parametrize("number", [np.float32, np.float64, Fraction, Decimal, np.int16])
def test_what_takes_a_number_takes_every_kind_and_keeps_pythons_own(number):
    n = number
    made = [
        plan.Link(n(5), n(25)),
        plan.Device("d", n(40), n(1555), bf16_tflops=n(312), power_watt=None, units=n(108)),
        plan.box(link_gbit_per_s=n(2), device_memory_gib=n(4)),
        plan.Failures(n(6300), n(60), n(900)),
        plan.Observation(plan.preset("tiny"), plan.Layout(), n(3)),
        plan.Tier(64, n(1)),
    ]
    assert {type(value) for one in made for _, value in whole_of(one)} <= {int, float}
    assert made[0] == plan.Link(5, 25)


def test_large_counts_of_a_table_do_not_overflow():
    counts = pd.Series([175_000_000_000, 300_000_000_000])
    days = plan.training_days(counts.iloc[0], counts.iloc[1], np.int64(1024), 140)
    assert days == plan.training_days(175e9, 300e9, 1024, 140)
    estimate = plan.predict(plan.preset("gpt2"), plan.Layout(), plan.cluster("selene"))
    assert type(estimate.days(np.float32(1e9))) is float


@pytest.mark.parametrize(
    ("refused", "text"),
    [
        (
            lambda: plan.cluster("selene", devices=64.0),
            "devices = 64.0 has a decimal point; write 64 ",
        ),
        (lambda: plan.cluster("selene", devices=-8), "devices -8 is too small"),
        (lambda: plan.cluster("selene").but(nodes=np.float64(2)), "has a decimal point; write 2 "),
        (lambda: plan.Layout(data=np.int64(0)), "data 0 is too small; use 1 or more"),
        (lambda: plan.Layout(data=True), "data = True is not a whole number"),
        (lambda: plan.Layout(zero=np.int64(4)), "zero stage .*4.* is unknown; use 0, 1, 2 or 3"),
        (lambda: plan.Layout(tensor=np.array([2, 4])), "tensor = .* is not a whole number"),
        (lambda: plan.Link("fast", 1), "latency_us = 'fast' is not a finite number"),
        (lambda: plan.Link(1, float("nan")), "gb_per_s = nan is not a finite number"),
        (lambda: plan.search(plan.preset("gpt2"), plan.cluster("selene"), 8.0), "global_batch = 8"),
        (lambda: plan.training_days("175b", 1, 1, 1), "parameters = '175b' is not a finite number"),
    ],
)
def test_nonsense_is_refused_as_ever(refused, text):
    with pytest.raises(plan.PlanError, match=text):
        refused()
