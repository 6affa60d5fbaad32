"""The lines of an array's waiting tasks in squeue: one for all, or one each."""

from __future__ import annotations

from course_lib.box.formats.job_view import JobView
from course_lib.box.queue import arrays
from course_lib.box.queue.records import PENDING


def apart(views: list[JobView]) -> list[JobView]:
    found = []
    for view in views:
        tasks = arrays.numbers(view.job.array_waiting) if view.job.state == PENDING else []
        found += [_with(view, task) for task in tasks] or [view]
    return found


def _with(view: JobView, task: int) -> JobView:
    own = JobView(arrays.changed(view.job, array_task=task, array_waiting=""), [], view.now_s)
    own.dependency, own.estimated_start_s = view.dependency, view.estimated_start_s
    return own


def together(views: list[JobView]) -> list[JobView]:
    """A task that was held or changed alone joins the line of the others while it waits, with its
    reason beside theirs, as long as both have one name."""
    lines = {_key(view): view for view in views if view.job.array_waiting}
    joined: dict[tuple[object, ...], list[JobView]] = {}
    for view in views:
        if view.job.array_task >= 0 and view.job.state == PENDING and _key(view) in lines:
            joined.setdefault(_key(view), []).append(view)
    if not joined:
        return views
    absorbed = {view.job.id for group in joined.values() for view in group}
    shown = []
    for view in views:
        if view.job.id in absorbed:
            continue
        others = joined.get(_key(view), []) if view.job.array_waiting else []
        shown.append(_joined(view, others) if others else view)
    return shown


def _key(view: JobView) -> tuple[object, ...]:
    job = view.job
    return job.array_job_id, job.name, job.partition, job.state


def _joined(view: JobView, others: list[JobView]) -> JobView:
    tasks = [*arrays.numbers(view.job.array_waiting), *(other.job.array_task for other in others)]
    reasons = ",".join(dict.fromkeys([view.job.reason, *(other.job.reason for other in others)]))
    job = arrays.changed(view.job, array_waiting=arrays.written(tasks), reason=reasons)
    line = JobView(job, [], view.now_s)
    line.dependency, line.estimated_start_s = view.dependency, view.estimated_start_s
    return line
