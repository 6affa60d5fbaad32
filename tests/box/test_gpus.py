"""The GPUs that the box finds on a machine, and how it names them to a program."""

from __future__ import annotations

import pytest

from course_lib.box import devices
from course_lib.box.devices import AMD, NVIDIA, Gpus


def machine(folder, nvidia=0, amd=0):
    """Make the files from which the box counts the GPUs of a machine."""
    (folder / "dev").mkdir()
    for name in ("null", "nvidiactl", "nvidia-uvm", *(f"nvidia{n}" for n in range(nvidia))):
        (folder / "dev" / name).touch()
    nodes = folder / "sys/class/kfd/kfd/topology/nodes"
    if amd:
        (folder / "dev/kfd").touch()
        for number in range(amd + 1):  # the first one is a processor
            (nodes / str(number)).mkdir(parents=True)
            text = f"cpu_cores_count {0 if number else 64}\nsimd_count {304 if number else 0}\n"
            (nodes / str(number) / "properties").write_text(text)
    return str(folder)


def outer(**limits):
    return devices.outer_limits(limits)


TWO_SLICES = "MIG-5f1c2d7e,MIG-90ab34cd"
MACHINES = [
    ({}, {}, ("", ())),
    *[({"nvidia": n}, {}, (NVIDIA, tuple(map(str, range(n))))) for n in (1, 2, 3, 4, 8)],
    ({"nvidia": 8}, {"CUDA_VISIBLE_DEVICES": "6,2"}, (NVIDIA, ("6", "2"))),
    ({"nvidia": 4}, {"CUDA_VISIBLE_DEVICES": "1,-1,2"}, (NVIDIA, ("1",))),
    ({"nvidia": 2}, {"CUDA_VISIBLE_DEVICES": ""}, (NVIDIA, ())),
    ({"nvidia": 1}, {"CUDA_VISIBLE_DEVICES": TWO_SLICES}, (NVIDIA, tuple(TWO_SLICES.split(",")))),
    ({"nvidia": 2}, {"ROCR_VISIBLE_DEVICES": "1"}, (NVIDIA, ("0", "1"))),
    ({"amd": 4}, {}, (AMD, ("0", "1", "2", "3"))),
    ({"amd": 4}, {"CUDA_VISIBLE_DEVICES": "2", "HIP_VISIBLE_DEVICES": "3"}, (AMD, ("3",))),
    ({"amd": 4}, {"ROCR_VISIBLE_DEVICES": "1,2,3", "HIP_VISIBLE_DEVICES": "2"}, (AMD, ("3",))),
]


@pytest.mark.parametrize(("there", "limits", "expected"), MACHINES)
def test_a_machine_lends_what_the_environment_around_the_box_allows(
    tmp_path, there, limits, expected
):
    found = devices.find(machine(tmp_path, **there), outer(**limits))
    assert (found.maker, found.names) == expected


def test_a_gpu_of_amd_that_the_container_may_not_use_does_not_count(tmp_path):
    root = machine(tmp_path, amd=2)
    properties = tmp_path / "sys/class/kfd/kfd/topology/nodes/2/properties"
    properties.unlink()
    assert devices.find(root, {}).names == ("0",)


def test_slots_share_gpus_if_gpus_are_too_few():
    three = Gpus(maker=NVIDIA, names=("5", "6", "7"))
    assert [three.of_slots([slot]) for slot in range(4)] == [["5"], ["6"], ["7"], ["5"]]
    assert three.of_slots([2, 3]) == ["7", "5"]
    assert Gpus(maker=NVIDIA, names=("0",)).of_slots([0, 1]) == ["0"]


@pytest.mark.parametrize("maker", [NVIDIA, AMD])
@pytest.mark.parametrize(
    ("way", "count", "lent"),
    [("auto", 1, 0), ("auto", 3, 0), ("auto", 4, 4), ("auto", 8, 8), ("auto", 0, 0)]
    + [("share", count, count) for count in (0, 1, 3, 8)]
    + [("none", count, 0) for count in (0, 1, 8)],
)
def test_slots_get_their_own_gpus_or_the_gpus_that_may_be_shared(maker, way, count, lent):
    found = Gpus(maker=maker, names=tuple(map(str, range(count))))
    given = devices.usable(found, way, slots=4)
    assert (given.maker, given.names) == (maker, found.names[:lent])


def test_every_library_of_nvidia_s_machine_is_told_the_same_names():
    assert devices.visible(NVIDIA, ["MIG-a", "MIG-b"]) == {
        "CUDA_VISIBLE_DEVICES": "MIG-a,MIG-b",
        "GPU_DEVICE_ORDINAL": "MIG-a,MIG-b",
        "ROCR_VISIBLE_DEVICES": "MIG-a,MIG-b",
        "ZE_AFFINITY_MASK": "MIG-a,MIG-b",
    }


def test_hip_counts_in_what_rocr_leaves_it():
    """HIP counts only the GPUs that ROCR leaves. If both lists were 5 and 6, HIP would find
    none."""
    assert devices.visible(AMD, ["5", "6"]) == {
        "ROCR_VISIBLE_DEVICES": "5,6",
        "HIP_VISIBLE_DEVICES": "0,1",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "GPU_DEVICE_ORDINAL": "0,1",
    }


def test_what_a_job_was_given_is_no_limit_of_the_machine():
    around = outer(CUDA_VISIBLE_DEVICES="2,3", HOME="/home/x")
    assert around == {"COURSE_BOX_OUTER_CUDA_VISIBLE_DEVICES": "2,3"}
    in_job = {**around, "COURSE_BOX_JOB": "7@/home/x", "CUDA_VISIBLE_DEVICES": "2"}
    assert devices.outer_limits(in_job) == around
    assert devices.outer_limits(around) == around
