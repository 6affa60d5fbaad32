"""Which devices of its job a step gets, and which of those its tasks."""

from __future__ import annotations

import pytest

from course_lib.box.scheduling import device_binding, step_devices
from course_lib.box.scheduling.step_devices import Busy, DeviceRequest, Impossible, JobDevices

BOTH = ((0, 1), (0, 1))


def job(free=BOTH, held=BOTH, **asked) -> JobDevices:
    return JobDevices(held=held, free=free, **asked)


def ask(there=None, places=(0,), counts=(1,), overlap=False, **request):
    wanted = DeviceRequest(**{"given": bool(request), **request})
    there = there or job()
    step_devices.check(wanted, there, len(places))
    return step_devices.allot(wanted, there, list(places), list(counts), overlap)


def test_a_step_that_asks_for_none_gets_all_of_its_nodes():
    assert ask() == ((0, 1),)
    assert ask(places=(0, 1), counts=(3, 1)) == BOTH


def test_a_step_gets_as_many_as_it_asks_for_in_every_way():
    assert ask(per_step=1) == ((0,),)
    assert ask(per_node=1, places=(0, 1), counts=(3, 1)) == ((0,), (0,))
    assert ask(per_task=1, places=(0, 1), counts=(2, 1)) == ((0, 1), (0,))
    assert ask(per_step=3, places=(0, 1), counts=(1, 1)) == ((0, 1), (0,))
    assert ask(per_step=2, places=(0, 1), counts=(1, 1)) == ((0,), (0,))


def test_devices_of_a_node_decide_over_those_of_tasks_and_of_the_step():
    assert ask(per_node=2, per_task=1, per_step=1) == ((0, 1),)
    assert ask(per_task=1, per_step=2) == ((0,),)


def test_of_a_whole_node_a_step_gets_what_its_job_asked_for():
    assert ask(job(unasked=True)) == ((),)
    assert ask(job(unasked=True, per_node=1)) == ((0,),)
    assert ask(job(unasked=True, per_node=1), per_node=2) == ((0, 1),)


def test_zero_and_none_are_no_devices():
    assert ask(given=True) == ((),)
    assert ask(none=True, per_step=2) == ((),)
    with pytest.raises(Impossible, match="TRES"):
        ask(none=True, per_node=2)


def test_a_step_takes_what_others_left_and_waits_for_the_rest():
    left = job(free=((1,), (0, 1)))
    assert ask(left, per_step=1) == ((1,),)
    assert ask(left, per_step=1, overlap=True) == ((0,),)
    for more in ({"per_step": 2}, {"per_node": 2}, {}, {"per_step": 2, "per_node": 1}):
        with pytest.raises(Busy):
            ask(left, **more)


@pytest.mark.parametrize(
    ("there", "request_", "why", "remark"),
    [
        (job(), {"per_step": 3}, "generic resource", ""),
        (
            job(per_job=2),
            {"per_step": 3},
            "generic",
            "gres=gpu:3 is more than the job's gres=gpu:2",
        ),
        (job(per_node=2), {"per_node": 3}, "generic", "gres_per_node=gpu:3 is more than"),
        (job(per_task=1), {"per_task": 2}, "generic", "gres_per_task=gpu:2 is more than"),
        (job(), {"per_task": 3}, "generic", ""),
        (job(), {"per_task": 1, "counts": (3,)}, "More processors", ""),
        (job(), {"per_step": 1, "places": (0, 1), "counts": (1, 1)}, "generic", "min nodes=2"),
        (job(held=((), ())), {"per_step": 1}, "generic", "job doesn't have GRES"),
        (job(), {"per_step": 1, "types": ("a100",)}, "generic", "(gpu:a100) not found"),
        (job(held=((0, 1), (0,))), {"per_node": 2, "places": (0, 1), "counts": (1, 1)}, "gen", ""),
    ],
)
def test_more_than_the_job_has_is_refused_in_the_words_of_slurm(there, request_, why, remark):
    with pytest.raises(Impossible, match=why) as caught:
        ask(there, **request_)
    assert remark in caught.value.remark
    assert bool(remark) == bool(caught.value.remark)


@pytest.mark.parametrize(
    ("binding", "owned"),
    [
        ("", [(0, 1), (0, 1)]),
        ("none", [(), ()]),
        ("closest", [(0, 1), (0, 1)]),
        ("CLOSEST", [(0, 1), (0, 1)]),
        ("single:1", [(0,), (1,)]),
        ("single:2", [(0,), (0,)]),
        ("per_task:1", [(0,), (1,)]),
        ("map_gpu:1,0", [(1,), (0,)]),
        ("map_gpu:1", [(1,), (1,)]),
        ("map_gpu:0*2,1", [(0,), (0,)]),
        ("mask_gpu:0x2,1", [(1,), (0,)]),
        ("mask_gpu:3", [(0, 1), (0, 1)]),
        ("verbose,single:1", [(0,), (1,)]),
        ("unheard-of", [(), ()]),
    ],
)
def test_each_word_of_gpu_bind_gives_a_task_its_devices(binding, owned):
    device_binding.check(binding or "none")
    assert [device_binding.bind(binding, (0, 1), task, 2).devices for task in (0, 1)] == owned


def test_a_task_that_is_alone_on_its_node_has_all_of_the_step():
    for binding in ("none", "single:1", "map_gpu:1", "per_task:1"):
        assert device_binding.bind(binding, (0, 1), 0, 1).devices == (0, 1)


def test_a_binding_to_what_is_not_there_says_so_and_takes_the_first():
    for binding, task in (("per_task:2", 1), ("map_gpu:5", 0), ("mask_gpu:8", 1)):
        bound = device_binding.bind(binding, (0, 1), task, 2)
        assert bound.devices == (0,)
        assert f"gpu:{binding} does not specify any devices" in bound.said[0]


@pytest.mark.parametrize(
    "binding",
    ["", "single", "per_task", "single:", "map_gpu:", "map_gpu:x", "mask_gpu:zz", "map_gpu:0x1",
     "verbose", "quiet", "v,single:1", "map_gpu:1,,2"],
)  # fmt: skip
def test_what_slurm_cannot_read_is_refused(binding):
    with pytest.raises(device_binding.InvalidBinding, match=r"Invalid --gpu-bind|Failed"):
        device_binding.check(binding)
