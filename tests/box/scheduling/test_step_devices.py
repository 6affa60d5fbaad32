"""A step gets some devices of its job, and its tasks get some devices of the step."""

from __future__ import annotations

import pytest

from course_lib.box.scheduling import step_placement
from course_lib.box.scheduling.step_placement import Busy, Impossible, JobNode, StepRequest


def ask(held=((0, 1), (0, 1)), free=None, tasks=1, nodes=1, **request):
    of_job = [
        JobNode(f"node{number}", 4, 4, devices, left)
        for number, (devices, left) in enumerate(zip(held, free or held, strict=True), 1)
    ]
    asked = StepRequest(nodes=nodes, tasks=max(tasks, nodes), exact=True, **request)
    return step_placement.allot(asked, of_job).devices


def test_a_step_that_asks_for_none_gets_all_of_its_nodes():
    assert ask() == ((0, 1),)
    assert ask(nodes=2, tasks=4) == ((0, 1), (0, 1))


def test_a_step_gets_as_many_as_it_asks_for_in_every_way():
    assert ask(gpus=1) == ((0,),)
    assert ask(gpus_per_node=1, nodes=2, tasks=4) == ((0,), (0,))
    assert ask(gpus_per_task=1, nodes=2, tasks=3) == ((0, 1), (0,))
    assert ask(gpus=3, nodes=2) == ((0, 1), (0,))
    assert ask(gpus=2, nodes=2) == ((0,), (0,))
    assert ask(gpus=0) == ((),)


def test_a_step_takes_what_others_left_and_waits_for_the_rest():
    left = ((1,),)
    assert ask(((0, 1),), left, gpus=1) == ((1,),)
    assert ask(((0, 1),), left, gpus=1, overlap=True) == ((0,),)
    for more in ({"gpus": 2}, {"gpus_per_node": 2}, {}):
        with pytest.raises(Busy):
            ask(((0, 1),), left, **more)


@pytest.mark.parametrize(
    ("request_", "why", "remark"),
    [
        ({"gpus": 3}, "generic resource", ""),
        ({"gpus_per_node": 3}, "generic resource", ""),
        ({"gpus_per_task": 1, "tasks": 3}, "More processors", ""),
        ({"gpus_per_task": 1, "tasks": 2, "gpus_per_node": 1}, "More processors", ""),
        ({"held": ((), ()), "gpus": 1}, "generic", "job doesn't have GRES"),
    ],
)
def test_more_than_the_job_has_is_refused_in_the_words_of_slurm(request_, why, remark):
    with pytest.raises(Impossible, match=why) as caught:
        ask(**request_)
    assert remark in caught.value.remark


@pytest.mark.parametrize(("per_task", "owned"), [(0, [(0, 1), (0, 1)]), (1, [(0,), (1,)])])
def test_a_task_gets_its_devices_as_the_step_asked(per_task, owned):
    both = [step_placement.devices_of_task((0, 1), task, 2, per_task) for task in (0, 1)]
    assert both == owned
    assert step_placement.devices_of_task((0, 1), 0, 1, per_task) == (0, 1)
