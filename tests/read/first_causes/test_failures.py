"""The first cause, in real logs and in every wording that we know of."""

from __future__ import annotations

import pytest

from course_lib import read

MIB, GIB = 2**20, 2**30

REAL = {
    # file: cause, rank, node, line
    "failure/apex-lossscale-to-zero.log": ("nan_loss", None, None, 5),
    "failure/assertion-first-seen-ranks-tee.log": ("python_error", 1, "nid006844", 123),
    "failure/collective-mismatch-op.log": ("collective_mismatch", 1, None, 1),
    "failure/collective-mismatch-shape.log": ("collective_mismatch", 1, None, 1),
    "failure/first-cause-other-node-then-watchdog.log": ("missing_file", 8, "v100x16-2", 1589),
    "failure/import-error-16ranks-childfailed.log": ("missing_module", 1, "dgx2-1", 25),
    "failure/nan-grad-assert-megatron.log": ("nan_loss", 3, "set-zw04-kubernetes-pc133.mt", 4),
    "failure/port-in-use-wordings.log": ("port_in_use", None, None, 1),
    "failure/scancel-one-line.log": ("cancelled", None, "nid006149", 1),
    "failure/task-failure-py-error.log": ("python_error", 0, "nid006975", 62),
    "failure/task-failure-stale-file.log": ("file_system", 1, "nid007643", 122),
    "failure/timelimit-64n-2021.log": ("time_limit", None, "r6i4n3", 89),
    "failure/watchdog-2330335.log": ("data_exhausted", 28, "nid007048", 369),
    "failure/watchdog-pt20-oldformat.log": ("collective_timeout", 0, None, 1),
    "oom/a100-40g-nersc-254MiB.log": ("cuda_oom", 2, None, 4),
    "oom/cpu-allocator-forms.log": ("cpu_oom", None, None, 1),
    "oom/gh200-4gpu-64GiB-simult.log": ("cuda_oom", 2, "nid007386", 168),
    "oom/host-ram-sigkill-8ranks.log": (
        "killed",
        0,
        "am4g1r39bm1.mgt.ams4.paperspace.com",
        620,
    ),
    "oom/mid-reserved-pt14.log": ("cuda_oom", None, None, 1),
    "oom/old-kib-ddp-traceback.log": ("cuda_oom", None, None, 3),
    "oom/slurm-oomkill-wordings.log": ("host_oom_kill", 0, "sdumont6156", 1),
    "oom/torch-launch-exit-minus9.log": ("killed", None, None, 1),
    "oom/v100-16gpu-after-5it.log": ("cuda_oom", 13, None, 1589),
    "oom/v100-16gpu-dgx2-zero0.log": ("cuda_oom", 7, None, 948),
    "megatron/bs-meg-n4-tp4pp4-scancel.log": ("cancelled", None, "r8i3n1", 1577),
    "nccl/duplicate-gpu-horovod-excerpt.log": ("duplicate_device", 2, None, 4),
    "nccl/v2213-connect-timeout-excerpt.log": ("connect_failed", None, None, 10),
    "nccl/socket-ifname-missing-2277-excerpt.log": ("network_interface", None, None, 6),
    "slurm/ctcms-timelimit.log": ("time_limit", None, None, 4),
    "slurm/magiccastle-timelimit.log": ("time_limit", None, "node1", 2),
    "slurm/sigma2-timelimit.log": ("time_limit", None, "gra533", 2),
}
HEALTHY = (
    "nccl/v2234-collnet-init-fallback-warn.log",
    "nccl/rccl-2223-rocm-excerpt.log",
    "nccl/v248-2n-socket-excerpt.log",
    "nccl/v2277-2xA100PCIe-fault.log",
    "nccl/efa-2n-16xA100-libfabric-eks.log",
    "megatron/ds-v100-pdsh-dual16-tp4dp4.log",
    "megatron/ds-v100-single16-500it.log",
    "megatron/gh200-10n-tee-timelimit.log",
    "megatron/gh200-2256081.log",
    "other-trainers/deepspeed-overflow-excerpt.log",
    "other-trainers/hf-ds-gpt2-n4.log",
    "other-trainers/fsdp-p5-slurm-nccl226.log",
)


@pytest.mark.parametrize("name", REAL)
def test_first_cause_of_a_real_log(logs, name):
    found = read.failure(logs / name)
    assert (found.cause, found.rank, found.node, found.line) == REAL[name]
    assert all((found.title, found.meaning, found.remedy, found.evidence))
    assert f"line {found.line}" in str(found)


@pytest.mark.parametrize("name", HEALTHY)
def test_warnings_are_no_failure(logs, name):
    assert read.failure(logs / name) is None


def test_cuda_sizes_are_read_in_every_wording(logs):
    new = read.failure(logs / "oom/a100-40g-nersc-254MiB.log").details
    assert new["tried_bytes"] == 254 * MIB
    assert new["total_bytes"] == round(39.39 * GIB)
    assert new["free_bytes"] == round(217.06 * MIB)
    assert new["device"] == 2
    old = read.failure(logs / "oom/old-kib-ddp-traceback.log").details
    assert old["tried_bytes"] == 1024 * MIB
    assert old["reserved_bytes"] == 607 * 1024
    assert old["allocated_bytes"] == round(14.25 * GIB)
    middle = read.failure(logs / "oom/mid-reserved-pt14.log").details
    assert middle["reserved_bytes"] == round(13.71 * GIB)
    other = read.failure(logs / "oom/v100-16gpu-after-5it.log")
    assert other.ranks == (11, 12, 13)
    assert other.details["in_use_bytes"] == round(30.85 * GIB)


def test_message_cut_by_the_launcher_is_joined(logs):
    found = read.failures(logs / "oom/gh200-4gpu-64GiB-simult.log")
    memory = found[found["cause"] == "cuda_oom"]
    assert memory["rank"].tolist() == [2, 3, 1, 0]
    assert "45.72 GiB. GPU 1 has" in memory["text"].iloc[2]
    whole = read.failure(logs / "oom/gh200-4gpu-64GiB-simult.log")
    assert whole.ranks == (0, 1, 2, 3)


def test_host_allocator_sizes(logs):
    found = read.failure(logs / "oom/cpu-allocator-forms.log")
    assert found.details["tried_bytes"] == 116813856768
    table = read.failures(logs / "oom/cpu-allocator-forms.log")
    assert table["cause"].tolist() == ["cpu_oom"] * 5


def test_all_slurm_wordings_of_the_memory_kill(logs):
    table = read.failures(logs / "oom/slurm-oomkill-wordings.log")
    assert table["cause"].tolist().count("host_oom_kill") == 4


def test_all_killed_ranks_of_the_launchers_table(logs):
    assert read.failure(logs / "oom/host-ram-sigkill-8ranks.log").ranks == tuple(range(8))


def test_all_ranks_with_the_first_cause_are_named(logs):
    found = read.failure(logs / "failure/first-cause-other-node-then-watchdog.log")
    assert found.ranks == (8, 12)
    assert found.details["path"].endswith("_doc_idx.npy")


def test_mismatched_collectives_name_both_sides(logs):
    shape = read.failure(logs / "failure/collective-mismatch-shape.log").details
    assert (shape["shape"], shape["other_shape"]) == ((195812480,), (51123456,))
    assert shape["sequence"] == shape["other_sequence"] == 3104
    op = read.failure(logs / "failure/collective-mismatch-op.log").details
    assert (op["op"], op["sequence"], op["other_op"], op["other_sequence"], op["other_rank"]) == (
        "ALLGATHER",
        101,
        "REDUCE",
        0,
        7,
    )


def test_an_assertion_of_all_ranks(logs):
    found = read.failure(logs / "failure/assertion-first-seen-ranks-tee.log")
    assert found.ranks == tuple(range(40))
