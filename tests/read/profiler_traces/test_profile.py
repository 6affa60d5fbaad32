"""Profiler traces: small ones by hand to the microsecond, real ones against torch-tb-profiler."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import read
from course_lib.read.profiler_traces.step_times import Ranges, Timeline


def event(category, name, start, duration, thread=1, process=10, **arguments):
    keys = {"external": "External id", "correlation": "correlation"}
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": process,
        "tid": thread,
        "ts": start,
        "dur": duration,
        "args": {keys.get(key, key): value for key, value in arguments.items()},
    }


def trace(*events, **properties) -> str:
    return json.dumps({**properties, "traceEvents": list(events)}, indent=1)


def row(table, number=0) -> dict[str, float]:
    return {name: value for name, value in table.iloc[number].items() if name.endswith("_us")}


def test_gpu_trace_worked_out_by_hand(write):
    """Time runs from 1000 to 1100:

    kernels      1010-1030 gemm, 1025-1045 relu (overlap 1025-1030)      35 busy
    memcpy       1040-1050                                                5 beyond the kernels
    collective   host 1050-1060, its kernel 1055-1075                    25 after the copies
    cpu          1000-1020, of which 1000-1010 is seen; 1080-1090        20
    nothing      1075-1080, 1090-1100                                    15
    """
    path = write(
        "rank2.json",
        trace(
            event("user_annotation", "ProfilerStep#7", 1000, 100, external=1),
            event("cpu_op", "aten::mm", 1000, 20, external=2),
            event("cpu_op", "aten::add", 1080, 10, external=3),
            event("user_annotation", "nccl:all_reduce", 1050, 10, external=4),
            event("kernel", "sm80_xmma_gemm_f16f16_f32", 1010, 20, 7, 0, external=2, correlation=1),
            event("kernel", "relu", 1025, 20, 8, 0, external=3, correlation=2),
            event("gpu_memcpy", "Memcpy DtoD", 1040, 10, 7, 0, external=3),
            event("kernel", "ncclDevKernel_AllReduce", 1055, 20, 9, 0, external=4),
            distributedInfo={"backend": "nccl", "rank": 2, "world_size": 4},
        ),
    )
    profile = read.profile(path)
    assert profile.ranks == (2,)
    assert row(profile.step_time) == {
        "total_us": 100,
        "kernel_us": 35,
        "memcpy_us": 5,
        "memset_us": 0,
        "communication_us": 25,
        "runtime_us": 0,
        "dataloader_us": 0,
        "cpu_us": 20,
        "other_us": 15,
    }
    assert row(profile.overlap) == {
        "compute_us": 40,
        "communication_us": 20,
        "exposed_communication_us": 20,
        "overlapped_us": 0,
        "pace_us": 0,
        "idle_us": 40,
        "data_us": 0,
        "total_us": 100,
    }
    assert profile.tensor_core_share == 20 / 60
    assert profile.gpu_utilisation == 0.55
    operators = profile.operators.set_index("name")
    assert operators.loc["aten::mm", "device_self_us"] == 20
    assert operators.loc["aten::mm", "tensor_core_us"] == 20
    assert operators.loc["aten::add", "device_self_us"] == 30


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("process", [0, 7, "stream 7"])
def test_steps_named_on_the_device_too_count_once(write, steps, process):
    """Steps as in CUDA traces of PyTorch 2: the same steps again, later and on a stream."""
    host = [event("user_annotation", f"ProfilerStep#{n}", 100 * n, 100) for n in range(steps)]
    work = [event("cpu_op", "aten::mm", 100 * n, 40) for n in range(steps)]
    work += [event("kernel", "gemm", 100 * n + 20, 60, 7, 0) for n in range(steps)]
    device = [
        event("gpu_user_annotation", f"ProfilerStep#{n}", 100 * n + 20, 60, 7, process)
        for n in range(steps)
    ]
    alone = read.profile(write("rank0.json", trace(*host, *work)))
    named = read.profile(write("rank1.json", trace(*host, *work, *device)))
    for table in ("step_time", "overlap", "spans"):
        mine = getattr(named, table).drop(columns=["rank", "worker"], errors="ignore")
        theirs = getattr(alone, table).drop(columns=["rank", "worker"], errors="ignore")
        if table == "spans":
            mine, theirs = (t[t["category"] == "step"] for t in (mine, theirs))
        assert mine.values.tolist() == theirs.values.tolist()
        assert len(mine) == steps
    assert named.step_time["total_us"].sum() == 100 * steps
    only = read.profile(write("rank2.json", trace(*work, *device)))
    assert only.step_time["step"].tolist() == list(range(steps))


def test_cpu_trace_worked_out_by_hand(write):
    """One thread computes 0-40 (with an inner operator 10-20) and 70-100; the collective runs on
    another thread 30-60; a data loader 60-70 is known by its annotation only."""
    path = write(
        "a.pt.trace.json.gz",
        gzip.compress(
            trace(
                event("user_annotation", "ProfilerStep#3", 0.0, 100.0),
                event("cpu_op", "aten::linear", 0.0, 40.0),
                event("cpu_op", "aten::addmm", 10.0, 10.0),
                event("cpu_op", "aten::linear", 70.0, 30.0),
                event("user_annotation", "gloo:all_reduce", 30.0, 30.0, thread=2),
                event("user_annotation", "enumerate(DataLoader)#_Iter.__next__", 60.0, 10.0),
            ).encode()
        ),
    )
    profile = read.profile(path)
    steps = row(profile.step_time)
    assert (steps["communication_us"], steps["cpu_us"], steps["other_us"]) == (30, 60, 10)
    overlap = row(profile.overlap)
    assert overlap["communication_us"] == 30
    assert overlap["overlapped_us"] == 10
    assert overlap["exposed_communication_us"] == 20
    assert (overlap["data_us"], overlap["idle_us"]) == (10, 0)
    linear = profile.operators.set_index("name").loc["aten::linear"]
    assert (linear.calls, linear.host_total_us, linear.host_self_us) == (2, 70, 60)
    assert profile.device_kind == "cpu"
    assert profile.tensor_core_share is None
    assert {item.title for item in profile.recommendations} == {
        "Waiting for data",
        "Exposed communication",
    }


def test_an_operator_that_waits_for_its_collective_hides_nothing(write):
    """`SumOut` runs 10-60. It adds 10-15, hands its sum over at 20 and waits for it until 55. On
    the thread of the backward pass, the same collective would be hidden behind `aten::mm` 20-50."""
    waiting = (
        event("user_annotation", "ProfilerStep#0", 0.0, 100.0),
        event("cpu_op", "SumOut", 10.0, 50.0),
        event("cpu_op", "aten::add", 10.0, 5.0),
        event("cpu_op", "c10d::allreduce_", 20.0, 2.0),
        event("user_annotation", "gloo:all_reduce", 20.0, 35.0, thread=2),
    )
    overlap = row(read.profile(write("waits.json", trace(*waiting))).overlap)
    assert (overlap["exposed_communication_us"], overlap["overlapped_us"]) == (35, 0)
    assert (overlap["compute_us"], overlap["idle_us"]) == (15, 50)
    hidden = (*waiting, event("cpu_op", "aten::mm", 20.0, 30.0, thread=3))
    overlap = row(read.profile(write("hides.json", trace(*hidden))).overlap)
    assert (overlap["exposed_communication_us"], overlap["overlapped_us"]) == (5, 30)


def test_two_ranks_worked_out_by_hand(write, tmp_path):
    """Rank 1 computes 50 instead of 30, so rank 0 waits 20 in the all-reduce."""
    for rank, work in ((0, 30), (1, 50)):
        write(
            f"profile/rank{rank}.x.pt.trace.json",
            trace(
                event("user_annotation", "ProfilerStep#0", 0, 100),
                event("cpu_op", "aten::mm", 0, work),
                event("user_annotation", "gloo:all_reduce", work, 70 - work, thread=2),
                distributedInfo={"backend": "gloo", "rank": rank, "world_size": 2},
            ),
        )
    profile = read.profile(tmp_path)
    assert profile.ranks == (0, 1)
    communication = profile.communication.set_index("rank")
    assert communication["total_us"].tolist() == [40, 20]
    assert communication["data_transfer_us"].tolist() == [20, 20]
    assert communication["synchronising_us"].tolist() == [20, 0]
    [step] = [one for one in profile.recommendations if one.title == "Ranks are out of step"]
    assert "the slowest rank (mostly 1) computes 50.0% longer" in step.evidence
    spans = profile.spans
    assert spans[spans["category"] == "communication"]["begin_us"].tolist() == [30, 50]


def test_the_sleep_that_keeps_a_slots_pace_is_a_part_of_computing(write):
    events = (
        event("user_annotation", "ProfilerStep#0", 0, 100),
        event("user_annotation", "forward 0", 10, 60),
        event("cpu_op", "aten::mm", 10, 20),
        event("cpu_op", "course::pace", 30, 40),
    )
    profile = read.profile(write("slot.json", trace(*events)))
    assert (row(profile.overlap)["compute_us"], row(profile.overlap)["pace_us"]) == (60, 40)
    spans = profile.spans[profile.spans["category"] == "pace"]
    assert (spans["begin_us"].item(), spans["end_us"].item()) == (30, 70)


def test_a_rank_that_idles_before_a_collective_is_named_and_not_the_network(write, tmp_path):
    """Both compute 20; rank 1 joins the all-reduce 50 later than rank 0."""
    for rank, joins in ((0, 20), (1, 70)):
        write(
            f"profile/rank{rank}.x.pt.trace.json",
            trace(
                event("user_annotation", "ProfilerStep#0", 0, 100),
                event("cpu_op", "aten::mm", 0, 20),
                event("user_annotation", "gloo:all_reduce", joins, 80 - joins, thread=2),
                distributedInfo={"backend": "gloo", "rank": rank, "world_size": 2},
            ),
        )
    first = read.profile(tmp_path).recommendations[0]
    assert (first.title, first.severity) == ("Ranks wait for a late rank", "high")
    assert first.evidence.startswith("25.0% of the step time")
    assert "rank 1 waits least" in first.evidence


def test_broken_json_costs_only_what_is_broken(write):
    good = trace(event("cpu_op", "aten::mm", 0, 10), event("cpu_op", "aten::add", 20, 5))
    bare = good.replace('"args": {}', '"args": {"x": N/A}', 1)
    cut = good[: good.index("aten::add") - 30]
    for text, calls in ((good, 2), (bare, 2), (cut, 1)):
        assert read.profile(write("a.json", text)).operators["calls"].sum() == calls
    swapped = '[{"ts": 1, "dur": 2, "name": "aten::x", "cat": "cpu_op", "ph": "X"},'
    assert read.profile(write("b.json", swapped)).operators["calls"].tolist() == [1]
    assert read.profile(write("c.json", "")).notes


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=8),
        min_size=1,
        max_size=3,
    )
)
def test_pieces_of_time_agree_with_counting_microseconds(sets):
    every = [
        Ranges(
            np.array([a for a, _ in one], float), np.array([a + length for a, length in one], float)
        )
        for one in sets
    ]
    step = Ranges(np.array([10.0]), np.array([50.0]))
    timeline = Timeline([step, *every])
    both = (
        np.logical_and.reduce(timeline.covered[1:]) if len(timeline.lengths) else np.zeros(0, bool)
    )
    inside = [
        all(any(a <= t < a + length for a, length in one) for one in sets) for t in range(10, 50)
    ]
    assert timeline.sums(both, step)[0] == sum(inside)
