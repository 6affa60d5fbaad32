"""Which devices of its job a step gets, and which of those its tasks."""

from __future__ import annotations

import pytest

from course_lib.box.scheduling import step_placement
from course_lib.box.scheduling.step_placement import Busy, DeviceRequest, Impossible, JobDevices

BOTH = ((0, 1), (0, 1))


def job(free=BOTH, held=BOTH, **asked) -> JobDevices:
    return JobDevices(held=held, free=free, **asked)


def ask(there=None, places=(0,), counts=(1,), overlap=False, **request):
    wanted = DeviceRequest(**{"given": bool(request), **request})
    there = there or job()
    step_placement.check_devices(wanted, there, len(places))
    return step_placement.allot_devices(wanted, there, list(places), list(counts), overlap)


def test_a_step_that_asks_for_none_gets_all_of_its_nodes():
    assert ask() == ((0, 1),)
    assert ask(places=(0, 1), counts=(3, 1)) == BOTH


def test_a_step_gets_as_many_as_it_asks_for_in_every_way():
    assert ask(per_step=1) == ((0,),)
    assert ask(per_node=1, places=(0, 1), counts=(3, 1)) == ((0,), (0,))
    assert ask(per_task=1, places=(0, 1), counts=(2, 1)) == ((0, 1), (0,))
    assert ask(per_step=3, places=(0, 1), counts=(1, 1)) == ((0, 1), (0,))
    assert ask(per_step=2, places=(0, 1), counts=(1, 1)) == ((0,), (0,))


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


@pytest.mark.parametrize(("per_task", "owned"), [(0, [(0, 1), (0, 1)]), (1, [(0,), (1,)])])
def test_a_task_gets_its_devices_as_the_step_asked(per_task, owned):
    both = [step_placement.devices_of_task((0, 1), task, 2, per_task)[0] for task in (0, 1)]
    assert both == owned
    assert step_placement.devices_of_task((0, 1), 0, 1, per_task) == ((0, 1), [])
