"""Numbers of jobs as they are typed: `12`, `12_3` and `12_[3-5,7]` for tasks of an array."""

from __future__ import annotations

from course_lib.box.queue import arrays
from course_lib.box.queue.records import Job


class JobWord:
    """`tasks` is None where the whole job, or all of an array, is meant."""

    def __init__(self, job_id: int, tasks: frozenset[int] | None) -> None:
        self.job_id = job_id
        self.tasks = tasks

    def means(self, job: Job) -> bool:
        if self.tasks is None:
            return self.job_id in (job.id, job.array_job_id)
        if job.array_job_id != self.job_id:
            return False
        return job.array_task in self.tasks or bool(arrays.waiting(job, self.tasks))


def split(text: str) -> list[str]:
    """At commas that are not inside brackets."""
    words, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            words.append("")
        else:
            words[-1] += letter
    return [word for word in words if word]


def read(word: str) -> JobWord | None:
    """None where it is no number of a job."""
    number, array, tasks = word.partition("_")
    if not arrays.is_number(number):
        return None
    if not array:
        return JobWord(int(number), None)
    if tasks == "*":
        return JobWord(int(number), None)
    if bool(tasks.startswith("[")) != bool(tasks.endswith("]")):
        return None
    try:
        listed = arrays.parse(tasks)[0] or "0"  # `12_` is task 0, as in Slurm
    except arrays.ArrayError:
        return None
    return JobWord(int(number), frozenset(arrays.numbers(listed)))


def narrowed(job: Job, words: list[JobWord]) -> Job:
    """The row with only those of its waiting tasks that the words mean."""
    if not job.array_waiting or any(word.tasks is None and word.means(job) for word in words):
        return job
    tasks: set[int] = set()
    for word in words:
        if word.means(job) and word.tasks:
            tasks.update(arrays.waiting(job, word.tasks))
    if len(tasks) == 1:
        return arrays.changed(job, array_waiting="", array_task=tasks.pop())
    return arrays.changed(job, array_waiting=arrays.written(tasks)) if tasks else job
