"""Traces of real machines, compared with torch_tb_profiler and with known facts."""

from __future__ import annotations

import gzip
import json
import logging
from pathlib import Path

import numpy as np
import pytest

from course_lib import read

REAL = (
    "hta-a100-2rank-nccl-metadata.json.gz",
    "hta-cpu-only-rank34.pt.trace.json.gz",
    "hta-mi250-rocm62.json.gz",
    "hta-no-distributedinfo.json.gz",
    "hta-rank-unavailable.json.gz",
    "hta-v100-2rank-memory-28k.json.gz",
)


def their_profile(path: Path):
    logging.disable(logging.CRITICAL)
    try:
        from torch_tb_profiler.profiler.data import RunProfileData

        return RunProfileData.parse("worker", "span", str(path), str(path.parent))
    finally:
        logging.disable(logging.NOTSET)


def assert_same(path: Path) -> None:
    theirs, ours = their_profile(path), read.profile(path)
    roles = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu", "other")
    columns = [f"{role}_us" for role in roles] + ["total_us"]
    expected = np.array([costs.costs for costs in theirs.steps_costs], float)
    assert ours.step_time["step"].astype(str).tolist() == list(theirs.steps_names)
    np.testing.assert_allclose(ours.step_time[columns].to_numpy(), expected, atol=0.01)
    operators = ours.operators.set_index("name")
    assert set(operators.index) == {item.name for item in theirs.op_list_groupby_name}
    for item in theirs.op_list_groupby_name:
        mine = operators.loc[item.name]
        assert mine.calls == item.calls
        assert mine.host_total_us == pytest.approx(item.host_duration, rel=1e-5, abs=0.1)
        assert mine.host_self_us == pytest.approx(item.self_host_duration, rel=1e-5, abs=0.1)
    utilisation = [
        share for share in theirs.gpu_metrics_parser.gpu_utilization if share is not None
    ]
    assert ours.gpu_utilisation == (pytest.approx(utilisation[0]) if utilisation else None)
    if theirs.kernel_stat is not None:
        kernels = ours.kernels.set_index("name").loc[theirs.kernel_stat.index]
        for mine, other in (("total_us", "sum"), ("calls", "count"), ("max_us", "max")):
            np.testing.assert_allclose(kernels[mine], theirs.kernel_stat[other].astype(float))
        assert ours.tensor_core_share == pytest.approx(theirs.tc_used_ratio)


@pytest.mark.many(3)
@pytest.mark.parametrize("name", REAL)
def test_numbers_agree_with_torch_tb_profiler(logs, tmp_path, name):
    copy = tmp_path / name
    text = gzip.decompress((logs / "traces" / name).read_bytes())
    copy.write_bytes(gzip.compress(text))
    if b"gpu_user_annotation" not in text:
        assert_same(copy)
        return
    found = json.loads(text)  # of which the tool would count the steps of the device as well
    found["traceEvents"] = [item for item in found["traceEvents"] if not is_step_of_device(item)]
    once = tmp_path / f"once-{name}"
    once.write_bytes(gzip.compress(json.dumps(found).encode()))
    assert_same(once)
    assert read.profile(copy).step_time.equals(
        read.profile(once).step_time.assign(worker=read.profile(copy).workers[0])
    )


def is_step_of_device(item: dict) -> bool:
    named = str(item.get("name")).startswith("ProfilerStep#")
    return named and item.get("cat") == "gpu_user_annotation"


def test_a_trace_recorded_here_agrees_too(tmp_path):
    import torch

    layer = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    folder = tmp_path / "profile"
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=2),
        on_trace_ready=torch.profiler.tensorboard_trace_handler(str(folder), "rank0"),
        profile_memory=True,
    ) as profiler:
        for _ in range(3):
            with torch.profiler.record_function("forward"):
                loss = layer(torch.ones(8, 32)).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    (path,) = folder.iterdir()
    assert_same(path)
    profile = read.profile(folder)
    assert profile.ranges.set_index("name").loc["forward", "calls"] == 2
    assert profile.memory[0].peak_bytes > 0


def test_facts_of_real_traces(logs):
    profile = read.profile(logs / "traces/hta-a100-2rank-nccl-metadata.json.gz")
    assert int(profile.kernels["calls"].sum()) == 2700
    communication = profile.kernels[profile.kernels["communication"]]
    assert int(communication["calls"].sum()) == 21
    assert communication["total_us"].sum() == pytest.approx(46876.5, abs=0.05)
    assert "A100" in profile.device_kind
    profile = read.profile(logs / "traces/hta-v100-2rank-memory-28k.json.gz")
    communication = profile.kernels[profile.kernels["communication"]]
    assert (int(communication["calls"].sum()), communication["total_us"].sum()) == (2020, 357343.0)
    assert int(profile.kernels["calls"].sum()) == 19370
    assert profile.ranks == (1,)
    assert read.profile(logs / "traces/hta-cpu-only-rank34.pt.trace.json.gz").ranks == (34,)
