"""Measured runs in one form, and the benchmark that compares predictions with them."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib.plan import Layout, PlanError, preset
from course_lib.plan.code_bases import STACKS, stack_of_software
from course_lib.plan.estimate import Estimate
from course_lib.plan.hardware.machines import cluster
from course_lib.plan.published.intervals import RESIDUALS

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "planner.py"
sys.path.insert(0, str(BENCHMARK.parent))
from planner_sources.runs import COLUMNS, read_runs  # noqa: E402

RUN = {
    "source": "ours",
    "hardware": "juwels-booster",
    "software": "megatron-2023",
    "layers": 40,
    "hidden": 5120,
    "heads": 32,
    "sequence": 2048,
    "tensor": 2,
    "pipeline": 4,
    "data": 4,
    "global_batch": 1024,
    "sequence_parallel": 1,
    "precision": "fp16",
    "zero": 1,
    "tokens_per_s": 60777.68,
}


def write(path, *rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, fieldnames=list(dict.fromkeys(k for r in rows for k in r)))
        table.writeheader()
        table.writerows(rows)
    return path


def test_a_run_is_read_with_its_defaults(tmp_path):
    (run,) = read_runs(write(tmp_path / "runs.csv", RUN))
    assert set(RUN) <= set(COLUMNS)
    assert run.model.ffn == 4 * 5120
    assert run.layout == Layout(
        data=4,
        tensor=2,
        pipeline=4,
        global_batch=1024,
        sequence_parallel=True,
        precision="fp16",
        zero=1,
    )
    assert run.cluster == cluster("juwels-booster", 32)
    assert run.iteration_s == pytest.approx(34.5053, rel=1e-4)
    assert (run.peak_gib, run.overflowed) == (None, False)


def test_a_device_stands_for_its_usual_nodes_and_unknown_software_is_planned(tmp_path):
    row = RUN | {"hardware": "H100", "software": "somebody's", "devices_per_node": 4}
    (run,) = read_runs(write(tmp_path / "runs.csv", row))
    assert (run.cluster.device.name, run.cluster.devices_per_node) == ("H100", 4)
    assert run.stack is STACKS["unknown"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"hardware": "abacus"}, "line 3: no cluster 'abacus' in the table; use one of dgx-2"),
        ({"layers": "many"}, "line 3: .*many"),
        ({"global_batch": 3}, "line 3: global_batch 3 is not a multiple"),
        ({"layers": ""}, "line 3: layers is empty"),
        ({"iteration_s": -1}, "line 3: iteration_s -1 is too small; use one above 0"),
        ({"iteration_s": "fast"}, "line 3: iteration_s = 'fast' is not a number"),
        (
            {"hardware": "V100-32GB", "precision": "bf16"},
            "line 3: no bf16 peak of V100-32GB is known; use fp32 or fp16",
        ),
        ({"positions": "sandwich"}, "line 3: positions 'sandwich' is unknown"),
    ],
)
def test_a_bad_line_is_named_and_the_others_are_read(tmp_path, changes, text):
    with pytest.warns(UserWarning, match="1 of 3 runs are left out\n  " + text):
        found = read_runs(write(tmp_path / "runs.csv", RUN, RUN | changes, RUN))
    assert found == read_runs(write(tmp_path / "good.csv", RUN, RUN))
    with pytest.raises(PlanError, match="no run that can be planned; " + text.replace("3:", "2:")):
        read_runs(write(tmp_path / "bad.csv", RUN | changes))


def test_a_missing_column_is_named(tmp_path):
    row = {name: value for name, value in RUN.items() if name != "heads"}
    with pytest.raises(PlanError, match="has no column heads; a measured run needs at least"):
        read_runs(write(tmp_path / "runs.csv", row))


def benchmark(folder):
    command = [sys.executable, str(BENCHMARK), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.timeout(120)
def test_the_benchmark_names_what_is_no_plain_file_and_does_not_wait_for_it(tmp_path):
    write(tmp_path / "runs.csv", RUN)
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "endless.csv").symlink_to("/dev/zero")
    (tmp_path / "lost.csv").symlink_to(tmp_path / "nowhere")
    code, text = benchmark(tmp_path)
    assert code == 1
    for name in ("pipe", "folder", "endless", "lost"):
        assert f"not read: {tmp_path / name}.csv: is not a plain file" in text


def test_the_benchmark_exits_with_1_if_a_goal_is_missed(tmp_path):
    layouts = [RUN | {"data": 32 // t // p, "tensor": t, "pipeline": p, "source": "jubench"}
               for t, p in ((2, 4), (4, 2), (2, 2), (4, 4))]  # fmt: skip
    told = [_told(tmp_path, row) for row in layouts]
    write(tmp_path / "runs.csv", *told)
    code, text = benchmark(tmp_path)
    assert code == 1  # all inside the interval: more than it claims
    assert "met     time, Megatron-like on A100, median %: 0.0" in text
    assert "MISSED  inside the 80 % interval, %: 100.0" in text


def _told(folder, row):
    """Return the run with the predicted time as its measured time."""
    (run,) = read_runs(write(folder / "one.csv", row))
    (folder / "one.csv").unlink()
    seconds = Estimate(run.model, run.layout, run.cluster, run.stack).seconds
    return {k: v for k, v in row.items() if k != "tokens_per_s"} | {"iteration_s": seconds}


def test_the_benchmark_says_that_an_empty_folder_is_empty(tmp_path):
    code, text = benchmark(tmp_path)
    assert (code, f"{tmp_path}: there is no CSV file in it" in text) == (1, True)


def test_the_benchmark_names_files_of_which_it_reads_nothing(tmp_path):
    write(tmp_path / "good.csv", RUN)
    (tmp_path / "other.csv").write_text("when,what\n1,2\n")
    (tmp_path / "only_a_head.csv").write_text(",".join(RUN) + "\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large.CSV").write_text("when,what\n1,2\n")
    code, text = benchmark(tmp_path)
    assert code == 1
    for name in ("other", "only_a_head", "empty", "bytes"):
        assert f"not read: {tmp_path}/{name}.csv: " in text
    assert f"not read: {tmp_path}/large.CSV: " in text
    assert "good.csv" not in text
    assert "ours" in text


def test_an_unpublished_code_base_gets_the_widest_interval():
    table = json.loads(RESIDUALS.read_text(encoding="utf-8"))
    assert all(row["low"] < row["high"] and row["runs"] >= 12 for row in table.values())
    known = Estimate(preset("13b"), Layout(), cluster("selene"), STACKS["llm-foundry"])
    unknown = Estimate(preset("13b"), Layout(), cluster("selene"), STACKS["unknown"])
    widths = [e.interval.high / e.interval.low for e in (known, unknown)]
    assert widths[0] < widths[1]


@pytest.mark.parametrize(
    ("software", "fused", "name"),
    [
        ("Megatron-Core 0.8", True, "megatron-core"),
        ("Megatron-LM", True, "megatron-lm"),
        ("Megatron-LM v2.5", False, "megatron-2021"),
        ("Megatron-DeepSpeed", True, "megatron-deepspeed"),
        ("GPT-NeoX 2.0", True, "megatron-deepspeed"),
        ("NVIDIA NeMo 24.05", True, "nemo"),
        ("PyTorch FSDP", True, "fsdp"),
        ("llm.c", True, "single-file"),
        ("nanotron", True, "nanotron"),
        ("MaxText", True, "unknown"),
    ],
)
def test_a_code_base_is_found_by_its_usual_name(software, fused, name):
    assert stack_of_software(software, fused).name == name


def shares(where, stack, **changes):
    found = Estimate(preset("13b"), Layout(**changes), cluster(where), STACKS[stack])
    return [end / found.seconds for end in found.interval]


def wider(one, other):
    return one[1] / one[0] > other[1] / other[0]


def test_an_interval_is_the_wider_the_less_the_run_is_like_a_measured_one():
    nemo = shares("dgx-h100", "nemo")
    assert wider(shares("mi300x", "nemo"), nemo)  # another device
    assert wider(shares("dgx-h100", "fsdp"), nemo)  # another program
    assert wider(shares("mi300x", "fsdp"), shares("dgx-h100", "fsdp"))
    assert wider(shares("gb300-nvl72", "nemo"), shares("gb300-nvl72", "nemo", precision="fp8"))
    huge = Layout(data=2**17, global_batch=2**17)
    far = Estimate(preset("13b"), huge, cluster("dgx-h100", 2**17), STACKS["nemo"])
    assert wider([end / far.seconds for end in far.interval], nemo)
    novel = preset("13b").but(sequence=2**20)
    long = Estimate(novel, Layout(context=64), cluster("dgx-h100", 64), STACKS["nemo"])
    assert wider([end / long.seconds for end in long.interval], nemo)
    assert "never compared with sequences of 1048576 tokens" in str(long)
    assert shares("selene", "unknown") == pytest.approx(shares("dgx-h100", "unknown"))


def test_an_estimate_says_from_what_runs_its_interval_comes():
    known = Estimate(preset("13b"), Layout(), cluster("dgx-h100"), STACKS["megatron-core"])
    assert known.evidence.runs >= 30
    assert "measured runs (megatron-core, H100" in str(known)
    assert "never compared" not in str(known)
    other = Estimate(preset("13b"), Layout(), cluster("mi300x"), STACKS["megatron-core"])
    assert "never compared with a device such as MI300X" in str(other)


def test_an_estimate_says_how_many_runs_of_its_kind_were_slow_and_how_long_they_took():
    layout = Layout(data=32, tensor=4, pipeline=4, global_batch=256, sequence_parallel=True)
    where = cluster("hf-h100", 512)
    stalling = Estimate(preset("llama-8b"), layout, where, STACKS["nanotron"])
    share, slow_s = stalling.slow
    _low, high = stalling.interval
    assert 0.5 < share < 1
    assert 2 * stalling.seconds < slow_s < high
    assert f"; {share:.0%} of such runs were slow: about {slow_s:.3g} s)" in str(stalling)
    assert stalling.expected_s == pytest.approx((1 - share) * stalling.seconds + share * slow_s)
    # Each message of a slow run lost as much as another, whatever the run computes.
    longer = Estimate(preset("llama-80b"), layout.but(global_batch=512), where, STACKS["nanotron"])
    lost_s = [run.slow[1] - run.seconds for run in (stalling, longer)]
    assert lost_s[1] == pytest.approx(2 * lost_s[0])
    # Another program's stalls say nothing of a program that was not measured.
    for name in ("megatron-core", "unknown", "torchtitan"):
        other = Estimate(preset("llama-8b"), layout, where, STACKS[name])
        assert other.slow is None
        assert other.expected_s == other.seconds
        assert "such runs were slow" not in str(other)
