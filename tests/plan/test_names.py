"""What a notebook sees of this room."""

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
