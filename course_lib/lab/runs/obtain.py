"""The run of a recipe: the one there is, a new one on the cluster, or one out of a recording."""

from __future__ import annotations

from course_lib.lab.job import sample_text
from course_lib.lab.queue import states
from course_lib.lab.queue.jobs import Jobs
from course_lib.lab.queue.nodes import refuse_what_never_runs
from course_lib.lab.queue.records import RECORDED, Record
from course_lib.lab.queue.submission import Submission, submit
from course_lib.lab.recorded.lend import lend
from course_lib.lab.runs import budget as budgets
from course_lib.lab.runs.run import Run


def same_recipe(jobs: Jobs, wanted: Submission) -> Run | None:
    """The newest run of the same recipe here, made with the program as it is now."""
    for record in reversed(jobs.registry.all()):
        was_lent = record.cluster == RECORDED and not wanted.site.recorded
        if record.key != wanted.key or record.cleaned or was_lent:
            continue
        run = Run(jobs, record)
        if run.deleted:
            continue
        if record.program_digest != wanted.program_digest:
            what = " or ".join(wanted.recipe.files) or wanted.recipe.program
            jobs.say(f"{run.name}: {what} has changed since job {run.job_id}")
            return None
        return run
    return None


def already(run: Run) -> str:
    """What stands in for a submission, and how to have one all the same."""
    status = run.status
    text = f"{run.name}: job {run.job_id} is of the same recipe, and is returned ({status.words})"
    if run.origin:
        return f"{text}; {run.origin}"
    if status.ended or status.state == states.UNKNOWN:
        text += "; submit(…, again=True) runs it once more"
    return text


def new_run(jobs: Jobs, wanted: Submission) -> Record:
    """The caller holds the lock of the workspace."""
    recipe, site = wanted.recipe, wanted.site
    refuse_what_never_runs(jobs.slurm, site.name, recipe.name, wanted.script.text)
    budgets.budget(jobs.registry.workspace, jobs.records()).admit(recipe)
    sample_text.prepare(recipe, site, jobs.say)
    jobs.say(f"{recipe.name}: {budgets.cost(recipe, site)}")
    record = submit(jobs, wanted)
    jobs.say(f"{recipe.name}: submitted to {site.name} as job {record.job_id}")
    return record


def recorded_run(jobs: Jobs, wanted: Submission) -> Record:
    record, found = lend(jobs.registry, wanted)
    jobs.say(f"{record.name}: job {record.job_id}: {found.words}")
    return record
