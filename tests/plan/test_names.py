"""Names of this room that a notebook can see."""

import subprocess
import sys

import pytest

from course_lib import plan


def test_every_name_that_is_offered_is_there():
    assert all(getattr(plan, name) is not None for name in plan.__all__)
    assert set(plan.__all__) <= set(dir(plan))


def test_an_unknown_name_is_answered_with_those_that_exist():
    with pytest.raises(AttributeError, match="has no 'forecast'; it offers: CLUSTERS, "):
        plan.forecast  # noqa: B018


def test_predicting_needs_neither_torch_nor_pandas_nor_numpy():
    code = (
        "import sys; from course_lib import plan;"
        "e = plan.predict(plan.preset('13b'), plan.Layout(tensor=2), plan.cluster('selene'));"
        "plan.search(e.model, plan.cluster('selene'), 8);"
        "print(e, sorted({'torch', 'pandas', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip().endswith("[]")


@pytest.mark.parametrize(
    ("sold_as", "name"),
    [
        ("H100-80GB", "H100"),
        ("NVIDIA H100 SXM5 80GB", "H100"),
        ("A100-SXM4-80GB", "A100-80GB"),
        ("gb200", "GB200"),
    ],
)
def test_a_device_is_found_under_the_name_it_is_sold_by(sold_as, name):
    assert plan.device(sold_as).name == name
    assert plan.cluster(sold_as).device.name == name


@pytest.mark.parametrize(
    ("called", "name"),
    [("NeMo 25.02", "nemo"), ("Megatron-LM", "megatron-lm"), ("deepspeed", "megatron-deepspeed")],
)
def test_a_code_base_is_planned_under_its_usual_name(called, name):
    where = plan.cluster("selene")
    assert plan.predict(plan.preset("13b"), plan.Layout(), where, called).stack.name == name


def test_a_name_that_means_nothing_is_answered_with_the_table():
    with pytest.raises(plan.PlanError, match="no device 'H100 PCIe' in the table; use one of"):
        plan.device("H100 PCIe")
    with pytest.raises(plan.PlanError, match="no code base 'abacus' in the table; use one of"):
        plan.predict(plan.preset("13b"), plan.Layout(), plan.cluster("selene"), "abacus")
