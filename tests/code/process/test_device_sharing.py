"""From a machine's GPUs, through what the box tells a job, to what its ranks agree on."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
import torch.distributed as dist

from course_lib.box import gpus
from course_lib.box.gpus import AMD, NVIDIA, Gpus
from course_lib.box.queue.records import Allocation, Job
from course_lib.box.scheduling.task_layout import Layout
from course_lib.box.supervisor.variables import JobVariables
from process import device_sharing
from process.device import index_of
from process.device_sharing import Seat, agree, decide, follow
from process.errors import DeviceError

NODES, SLOTS = ("node1", "node2"), (0, 1)


def numbered(count, maker=NVIDIA):
    return Gpus(maker=maker, names=tuple(map(str, range(count))))


SLICES = Gpus(maker=NVIDIA, names=("MIG-a", "MIG-b", "MIG-c"))
MACHINES = {
    "1": (numbered(1), "0000"),
    "2": (numbered(2), "0110"),
    "3": (numbered(3), "0112"),
    "4": (numbered(4), "0123"),
    "8": (numbered(8), "0145"),
    "mig": (SLICES, "abbc"),
    "amd": (numbered(2, AMD), "0110"),
}


@pytest.fixture
def job(monkeypatch, tmp_path):
    """Variables of a job on both nodes of a box that found these GPUs, and lends them."""
    monkeypatch.setenv("COURSE_BOX_HOME", str(tmp_path))
    (tmp_path / "box.toml").write_text('gpus = "share"\n')

    def make(found):
        monkeypatch.setattr(gpus, "find", lambda: found)
        parts = [Allocation(node=node, cpus=(0, 1), devices=SLOTS, tasks=2) for node in NODES]
        return JobVariables(Job(id=7, kind="batch"), parts)

    return make


def environments(variables, launcher):
    """What each rank's task is told, and the rank's number on its node."""
    if launcher == "torchrun":  # one task per node starts the ranks of the node
        return [(variables.devices(node), slot) for node in (0, 1) for slot in SLOTS]
    layout = Layout(places=(0, 1), tasks=((0, 1), (2, 3)), cpus=(2, 2), devices=(SLOTS, SLOTS))
    per_task = 1 if launcher == "srun --gpus-per-task=1" else 0
    own = [(slot,) if per_task else SLOTS for slot in SLOTS]
    return [(variables.task(layout, task, own[task % 2]), task % 2) for task in range(4)]


def seen(environment):
    """The devices that a program finds, as the makers' runtimes read the variables."""
    if "HIP_VISIBLE_DEVICES" in environment:
        left = environment["ROCR_VISIBLE_DEVICES"].split(",")
        return [left[int(word)] for word in environment["HIP_VISIBLE_DEVICES"].split(",")]
    return environment["CUDA_VISIBLE_DEVICES"].split(",")


def seats(variables, launcher):
    found = []
    for place, (environment, local_rank) in enumerate(environments(variables, launcher)):
        devices = seen(environment)
        card = devices[index_of(local_rank, len(devices))]
        # NCCL knows a slice by the address of its GPU
        card = "the only GPU" if card.startswith("MIG-") else card
        host = environment["NCCL_HOSTID"]
        found.append(Seat(NODES[place // 2], host, "machine", "cuda", card))
    return found


LAUNCHERS = ["torchrun", "srun", "srun --gpus-per-task=1"]


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("name", MACHINES)
def test_no_two_ranks_of_one_host_sit_on_one_gpu(job, name, launcher):
    machine, _ = MACHINES[name]
    found = seats(job(machine), launcher)
    agreed = decide(found).host_ids
    places = {(new or seat.host, seat.card) for seat, new in zip(found, agreed, strict=True)}
    assert len(places) == 4


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("name", MACHINES)
def test_every_rank_has_a_device_and_the_same_one_under_each_launcher(job, name, launcher):
    machine, expected = MACHINES[name]
    told = environments(job(machine), launcher)
    chosen = [seen(variables)[index_of(local, len(seen(variables)))] for variables, local in told]
    assert "".join(device[-1] for device in chosen) == expected


@pytest.mark.parametrize(
    ("count", "line"),
    [
        (1, "note: 4 ranks on 1 GPU: ranks 0, 1, 2, 3 share one."),
        (2, "note: 4 ranks on 2 GPUs: ranks 0, 3 share one; ranks 1, 2 share one."),
        (3, "note: 4 ranks on 3 GPUs: ranks 1, 2 share one."),
        (4, ""),
        (8, ""),
    ],
)
def test_sharing_is_said_also_across_nodes(job, count, line):
    told = decide(seats(job(numbered(count)), "torchrun")).sharing
    assert told.startswith(line)
    assert bool(told) == bool(line)


def test_ranks_with_gpus_of_their_own_stay_one_host(job):
    """Else NCCL would take the network inside a node."""
    for launcher in LAUNCHERS:
        assert decide(seats(job(numbered(4)), launcher)).host_ids == [""] * 4


def test_one_rank_on_each_node_has_a_gpu_of_its_own_where_there_are_two(job):
    variables = job(numbered(2))
    assert [variables.devices(node, (0,))["CUDA_VISIBLE_DEVICES"] for node in (0, 1)] == [
        "0", "1",
    ]  # fmt: skip


def test_the_first_rank_on_each_gpu_keeps_its_host(job):
    assert decide(seats(job(numbered(1)), "torchrun")).host_ids == [
        "", "course-box-7-node1-2", "", "course-box-7-node2-2",
    ]  # fmt: skip


def test_without_gpus_a_job_gets_slots_and_nobody_shares(job):
    variables = job(Gpus())
    assert variables.devices(1)["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert "NCCL_HOSTID" not in variables.devices(1)
    agreed = decide([Seat(node, node, "machine", "cpu", "") for node in NODES])
    assert (agreed.host_ids, agreed.sharing, agreed.refusal) == (["", ""], "", "")


def test_a_job_of_processors_sees_no_gpu_of_a_machine_that_has_some(job):
    variables = job(Gpus(maker=NVIDIA))
    assert variables.devices(0)["CUDA_VISIBLE_DEVICES"] == "-1"
    assert "COURSE_DEVICE_MEMORY_BYTES" in variables.devices(0)


def mixed(size):
    return [
        Seat("node1" if rank < 2 else "node2", "host", "machine", *device)
        for rank, device in enumerate([("cuda", "0"), ("cuda", "1"), ("cpu", "")][:size])
    ]


def test_a_gpu_and_a_processor_are_refused_by_name():
    refusal = decide(mixed(3)).refusal
    assert "rank 2 on node2 has cpu, rank 0 on node1 has cuda" in refusal
    assert "CUDA_VISIBLE_DEVICES=-1" in refusal


@pytest.mark.parametrize("size", [1, 2, 3])
def test_all_ranks_get_one_answer(size):
    store, answers = dist.HashStore(), {}

    def rank(number):
        answers[number] = agree(store, number, size, mixed(size)[number], timedelta(seconds=30))

    ranks = [threading.Thread(target=rank, args=[number]) for number in reversed(range(size))]
    for thread in ranks:
        thread.start()
    for thread in ranks:
        thread.join(20)
    assert list(answers.values()) == [decide(mixed(size))] * size


def test_who_follows_starts_nccl_under_the_agreed_host(monkeypatch, capsys):
    monkeypatch.setenv(device_sharing.HOST_ID, "node1")
    two = decide([Seat("node1", "node1", "machine", "cuda", "0")] * 2)
    follow(two, 0)
    assert device_sharing.os.environ[device_sharing.HOST_ID] == "node1"
    assert capsys.readouterr().out.startswith("note: 2 ranks on 1 GPU: ranks 0, 1 share one.")
    follow(two, 1)
    assert device_sharing.os.environ[device_sharing.HOST_ID] == "node1-2"
    assert capsys.readouterr().out == ""
    with pytest.raises(DeviceError, match="different devices"):
        follow(decide(mixed(3)), 0)
