"""Events of a job: each has one function and happens once."""

from __future__ import annotations

from course_lib.box.queue import state, store


def test_only_the_first_supervisor_gets_a_job(queue):
    job = queue.submit()
    assert state.claim(job, 1, 1) is None
    queue.run_pass()
    assert state.claim(job, 1, 1) is not None
    assert state.claim(job, 2, 2) is None


def test_a_cancelled_job_stays_cancelled_whatever_its_script_says(queue):
    job = queue.submit()
    queue.run_pass()
    state.claim(job, 1, 1)
    before = state.mark_cancelled(job, 0)
    assert before is not None
    assert before.state == "RUNNING"
    state.finish(job, "FAILED", 3)
    ended = queue.job(job)
    assert (ended.state, ended.exit_code, ended.completing) == ("CANCELLED", 3, 0)


def test_steps_are_numbered_and_end_with_their_job(queue):
    job = queue.submit()
    queue.run_pass()
    state.claim(job, 1, 1)
    names = [state.add_step({"job_id": job, **more}) for more in ({"step": "batch"}, {}, {})]
    assert [step.step for step in names if step] == ["batch", "0", "1"]
    state.finish_step(job, "0", "COMPLETED", 0)
    state.mark_cancelled(job, 0)
    assert state.add_step({"job_id": job}) is None
    state.finish(job, "CANCELLED", 0, 15)
    assert [step.state for step in state.read_steps(job)] == [
        "CANCELLED",
        "COMPLETED",
        "CANCELLED",
    ]


def test_a_buried_job_is_a_failed_node(queue):
    job = queue.submit()
    queue.run_pass()
    state.claim(job, 1, 1)
    assert state.record_dead_supervisor(queue.job(job))
    assert (queue.job(job).state, queue.job(job).reason) == ("NODE_FAIL", "NodeDown")
    assert not state.record_dead_supervisor(queue.job(job))


def test_a_job_that_began_anew_is_not_buried_for_its_former_self(queue):
    job = queue.submit()
    queue.run_pass()
    state.claim(job, 1, 1)
    former = queue.job(job)
    state.ask_requeue(job)
    state.finish(job)
    with store.transaction() as db:
        store.change(db, job, begin_s=0.0)
    queue.run_pass()
    assert queue.job(job).state == "RUNNING"
    assert not state.record_dead_supervisor(former)
    assert queue.job(job).state == "RUNNING"


def test_a_requeued_job_waits_again_and_counts_it(queue):
    job = queue.submit()
    queue.run_pass()
    state.claim(job, 1, 1)
    state.ask_requeue(job)
    state.finish(job, "FAILED", 1)
    again = queue.job(job)
    assert (again.state, again.restarts, again.exit_code) == ("PENDING", 1, 0)
    assert state.read_allocation(job) == []
    assert queue.run_pass() == []
    assert queue.reason(job) == "BeginTime"
    with store.transaction() as db:
        store.change(db, job, begin_s=0.0)
    assert queue.run_pass() == [job]
    assert state.claim(job, 2, 2) is not None


def test_bytes_that_are_no_text_survive(queue):
    odd = b"NAME=\xff\xfe\nline\0OTHER=a=b\0"
    job = queue.submit(environment=odd, argv=b"a b\0\0\xff\0", work_dir=b"/tmp/\xff")
    read = queue.job(job)
    assert read.variables() == {b"NAME": b"\xff\xfe\nline", b"OTHER": b"a=b"}
    assert read.arguments() == [b"a b", b"", b"\xff"]
