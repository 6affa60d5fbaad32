"""The profiler's tab with traces that lack something."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from course_lib.lab.tensorboard import plugin


@pytest.mark.parametrize(("types", "total_bytes"), [(["float"], 4 * 1024), (None, 0)])
def test_a_message_without_a_type_hides_no_run(types, total_bytes):
    message = SimpleNamespace(
        name="gloo:all_reduce", step_name="1", input_shape=[[1024]], input_type=types,
        kernel_ranges=[(0, 5)], real_time_ranges=[(1, 4)],
    )  # fmt: skip
    _, total = plugin.profiler_data.analyze_communication_nodes([message])
    assert total["gloo:all_reduce"][:2] == [1, total_bytes]
