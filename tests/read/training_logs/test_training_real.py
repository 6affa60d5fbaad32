"""Facts of real training logs, counted by hand, file by file."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from course_lib import read

COUNTED = re.compile(r"iteration lines=(\d+); first=(\d+) last=(\d+) of (\d+)")
LAST = {
    "elapsed_ms": re.compile(r"last elapsed ms/iter=([\d.]+)"),
    "tflops_per_device": re.compile(r"last TFLOP/s/GPU=([\d.]+)"),
    "lm_loss": re.compile(r"last lm loss=([\d.E+-]+)"),
    "loss_scale": re.compile(r"last loss scale=([\d.-]+)"),
    "global_batch_size": re.compile(r"global batch size=(\d+)"),
}


def index(logs: Path) -> list[dict[str, str]]:
    with (logs / "INDEX.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_indexed_count_of_iterations_is_found(logs):
    seen = 0
    for row in index(logs):
        counted = COUNTED.search(row["expected"])
        if counted is None:
            continue
        seen += 1
        lines, first, last, total = map(int, counted.groups())
        log = read.training_log(logs / row["file"])
        printed = int(log.iterations["copies"].sum() + log.repeated["copies"].sum())
        assert printed == lines, row["file"]
        ends = log.iterations["iteration"].iloc[[0, -1]].tolist()
        assert ends == [first, last], row["file"]
        assert log.total_iterations == total, row["file"]
        assert log.finished == (last == total), row["file"]
        for column, pattern in LAST.items():
            if found := pattern.search(row["expected"]):
                value = log.iterations[column].iloc[-1]
                assert value == pytest.approx(float(found[1]), rel=1e-12), (row["file"], column)
        for attribute, pattern in (("skipped", r"sum skipped=(\d+)"), ("nan", r"sum nan=(\d+)")):
            found = re.search(pattern, row["expected"])
            assert getattr(log, attribute) == int(found[1]), (row["file"], attribute)
    assert seen >= 9


WORLDS = {
    "megatron/bs-meg-n4-tp4pp4-scancel.log": (16, 1, 4, 4, "float16", 4),
    "megatron/bs-megds-zero-n16-oldformat.log": (64, 16, 4, None, "float16", None),
    "megatron/bs-megds3d-n16-v100-dson.log": (64, 1, 4, 16, "float16", 256),
    "megatron/core-6gpu-pp3tp2-nccl2186.log": (6, 1, 2, 3, "float32", 1),
    "megatron/ds-v100-pdsh-dual16-tp4dp4.log": (16, 4, 4, 1, "bfloat16", 4),
    "megatron/ds-v100-single16-500it.log": (16, 4, 4, 1, "bfloat16", 4),
    "megatron/gh200-10n-tee-timelimit.log": (40, 40, 1, 1, "bfloat16", 1),
    "megatron/gh200-2256081.log": (1, 1, 1, 1, "bfloat16", 40),
    "megatron/gh200-srunlabel-timelimit.log": (56, 56, 1, 1, "bfloat16", 3),
}


@pytest.mark.parametrize("name", WORLDS)
def test_the_world_is_read(logs, name):
    world = read.training_log(logs / name).world
    sizes = world.world_size, world.data, world.tensor, world.pipeline
    assert (*sizes, world.precision, world.micro_batches) == WORLDS[name]


def test_memory_lines_that_processes_glued_together_are_all_found(logs):
    log = read.training_log(logs / "megatron/bs-meg-n4-tp4pp4-scancel.log")
    assert sorted(log.memory["rank"]) == list(range(16))
    assert (log.memory["iteration"] == 20).all()
    by_rank = log.memory.set_index("rank")
    assert by_rank.loc[7, "max_allocated_mib"] == 24432.009765625
    assert by_rank.loc[6, "reserved_mib"] == 29312.0
    assert by_rank.loc[12, "max_allocated_mib"] == 25791.771484375


def test_first_interval_of_fp16_is_skipped_while_the_loss_scale_falls(logs):
    log = read.training_log(logs / "megatron/bs-meg-n4-tp4pp4-scancel.log")
    first = log.iterations.iloc[0]
    assert (first.skipped_iterations, first.loss_scale) == (10, 8388608.0)
    assert first.lm_loss != first.lm_loss
    assert log.evaluations["lm_loss"].tolist() == [8.017406, 7.487306]
    assert log.evaluations["perplexity"].tolist() == [3033.3, 1785.236]
    assert len(log.parameters) == 16
    assert log.parameters["parameters"].max() == 1217086464


def test_oldest_format_states_throughput_on_a_line_of_its_own(logs):
    log = read.training_log(logs / "megatron/bs-megds-zero-n16-oldformat.log")
    assert log.iterations["tflops_per_device"].tolist() == [41.94, 40.6, 41.26]
    assert log.parameter_count == 52_005_000_000
    assert log.memory["max_allocated_mib"].tolist() == [26118.2294921875]


def test_a_job_that_was_run_three_times_keeps_the_last_and_the_others_apart(logs):
    log = read.training_log(logs / "megatron/ds-v100-pdsh-dual16-tp4dp4.log")
    assert log.iterations["iteration"].tolist() == list(range(1, 21))
    assert len(log.repeated) == 40
    assert log.attempts == 3
    assert log.iterations["line"].iloc[-1] == 4984
    assert log.world.nodes == ("192.168.205.202", "localhost")


def test_memory_line_that_the_launcher_cut_in_two_is_joined(logs):
    log = read.training_log(logs / "megatron/gh200-2256081.log")
    assert log.memory["reserved_mib"].tolist() == [15604.0, 22470.0]
    assert log.memory["max_reserved_mib"].tolist() == [15604.0, 22470.0]
    assert log.iterations["lm_loss"].iloc[-1] == 4.623724e-03
    assert not log.finished


def test_ranks_follow_from_node_label_and_local_rank(logs):
    tee = read.training_log(logs / "megatron/gh200-10n-tee-timelimit.log")
    assert set(tee.iterations["rank"]) == {39}
    label = read.training_log(logs / "megatron/gh200-srunlabel-timelimit.log")
    assert set(label.iterations["rank"]) == {55}
    assert label.iterations["params_norm"].iloc[-1] == 700.144


def test_gigabytes_are_converted(logs):
    memory = read.training_log(logs / "megatron/memory-gb-runai-prefix-excerpt.log").memory
    assert memory["max_allocated_mib"].iloc[0] == pytest.approx(153.48e9 / 2**20)


def test_other_trainers_are_read_too(logs):
    folder = logs / "other-trainers"
    epochs = read.training_log(folder / "nersc-dl-at-scale-dali.log").epochs
    assert epochs["epoch"].tolist() == [1, 2, 3, 4]
    last = epochs.iloc[-1]
    assert (last.elapsed_s, last.samples_per_second) == (40.685218, 12.584423)
    assert (last.train_loss, last.validation_loss) == (0.345953, 0.3512427508831024)
    assert last.validation_s == 4.708324909210205

    overflows = read.training_log(folder / "deepspeed-overflow-excerpt.log").overflows
    assert overflows["loss_scale"].tolist() == [4294967296.0] * 2
    assert overflows["new_loss_scale"].tolist() == [4294967296.0, 2147483648.0]
    assert overflows["hysteresis"].iloc[0] == 2

    nemo = read.training_log(folder / "nemo2-prefix-excerpt.log").iterations
    assert (nemo["global_step"].iloc[-1], nemo["elapsed_ms"].iloc[-1]) == (97, 12220.0)
    nemo = read.training_log(folder / "nemo2-nemorun-k8s.log").iterations
    assert nemo["elapsed_ms"].tolist() == [46860.0, 46840.0]
    assert set(nemo["global_batch_size"]) == {512}

    fsdp = read.training_log(folder / "fsdp-p5-slurm-nccl226.log").iterations
    assert len(fsdp) == 6
    summary = read.training_log(folder / "hf-ds-gpt2-n4.log").notes
    assert "919.097" in summary[summary["kind"] == "summary"]["text"].iloc[0]


def test_apex_scale_falls_from_256_to_2(logs):
    scales = read.training_log(logs / "failure/apex-lossscale-to-zero.log").overflows
    assert scales["new_loss_scale"].iloc[[0, -1]].tolist() == [256.0, 2.0]
