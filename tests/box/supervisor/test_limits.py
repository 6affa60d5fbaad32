"""The limits of a job, and the variables that state them."""

from __future__ import annotations

from course_lib.box.queue.records import Job
from course_lib.box.supervisor import limits


def test_a_device_without_gpu_is_a_limit_on_the_data_of_a_process():
    job = Job(id=1, memory_per_device_gib=2.0)
    found = limits.of_process(job, has_device=True, gpus=0)
    assert found["RLIMIT_DATA"][0] > 2 * 2**30
    assert "RLIMIT_DATA" not in limits.of_process(job, has_device=True, gpus=1)
    assert "RLIMIT_DATA" not in limits.of_process(job, has_device=False, gpus=0)


def test_memory_of_a_job_is_what_was_asked_for():
    assert limits.memory_limit_bytes(Job(id=1, memory="2048"), 4) == 2 * 2**30
    assert limits.memory_limit_bytes(Job(id=1, memory_per_cpu="100"), 4) == 400 * 2**20
    assert limits.memory_limit_bytes(Job(id=1), 4) is None
