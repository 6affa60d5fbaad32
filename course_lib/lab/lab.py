"""The lab: the object that a notebook uses."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.lab import clusters, mysteries
from course_lib.lab.errors import SiteError, UnknownRunError
from course_lib.lab.job.program_files import excerpt, gaps_in_files, prepare_data
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.script import Script, render
from course_lib.lab.job.site import Site
from course_lib.lab.job.unfinished import Unfinished
from course_lib.lab.queue.jobs import PAUSES_ON_THE_BOX_S, PAUSES_S, Jobs
from course_lib.lab.queue.records import RECORDED, Record, Registry, recorded
from course_lib.lab.queue.slurm import UNKNOWN, Slurm, slot_pace
from course_lib.lab.queue.submission import Submission, check_writable, repair, submit
from course_lib.lab.recorded import printed
from course_lib.lab.recorded.machine import recorded_words
from course_lib.lab.recorded.recording_index import (
    NoSlurm,
    RecordingIndex,
    hand_out,
    runs_elsewhere,
)
from course_lib.lab.runs import budget as budgets
from course_lib.lab.runs.budget import Budget
from course_lib.lab.runs.run import Run
from course_lib.lab.runs.tables import RUN_COLUMNS, run_row
from course_lib.lab.workspace import Workspace, find
from course_lib.mistakes.arguments import explained_methods
from course_lib.mistakes.kinds import shown
from course_lib.mistakes.names import suggests_similar_names
from course_lib.plan.numbers import whole
from course_lib.words import _

if TYPE_CHECKING:
    import pandas as pd

    from course_lib.lab.runs.clean import Cleaning
    from course_lib.lab.tensorboard import Link
    from course_lib.read import Stacks

Which = Run | str | int


@suggests_similar_names
@explained_methods(
    "lab", "__init__", "but", "script", "code", "submit", "run", "open", "elsewhere", "cancel",
    "clean", "mystery", "stacks", "tensorboard", "set_budget",
)  # fmt: skip
class Lab:
    """A workspace, a site and the runs made there.

    `folder` is the workspace (found if not given). `site` is a Site or the name of a preset. By
    default the lab uses the workspace's site.toml, then a cluster that answers here, then the box.
    """

    def __init__(
        self, folder: str | Path | None = None, *, site: Site | str | None = None,
        quiet: bool = False,
    ):  # fmt: skip
        self.workspace = Workspace(Path(folder).resolve()) if folder else find()
        choice = clusters.choose(self.workspace, site)
        self.site, self._quiet = choice.site, quiet
        clusters.put_commands_on_path(self.site)
        self.say(_("Lab: {why}; runs go to {runs}", why=choice.why, runs=self.workspace.runs))
        pauses_s = PAUSES_ON_THE_BOX_S if self.site.box else PAUSES_S
        slurm = NoSlurm() if self.site.recorded else Slurm()
        if self.site.recorded:
            printed.answer(lambda: RecordingIndex.of(self.workspace).printed)
        self.jobs = Jobs(Registry(self.workspace), pauses_s, self.say, slurm)

    def __repr__(self) -> str:
        how = _("recorded at") if self.site.recorded else "at"
        return f"<Lab {how} {self.site.name}, workspace {self.workspace.folder}>"

    def say(self, text: str) -> None:
        if not self._quiet:
            print(text)

    @property
    def work(self) -> Path:
        """Return the folder for your own programs: `%%writefile "{lab.work}/my_ring.py"`."""
        return self.workspace.work

    def but(self, **changes: Any) -> Lab:
        """Return the same lab with some values of its site changed: `lab.but(link_gbit=0.2)`."""
        other = copy(self)
        other.site = self.site.but(**changes)
        return other

    def script(self, recipe: Recipe | Unfinished) -> Script | Unfinished:
        """Return the batch script of a recipe, exactly as it will be submitted."""
        return recipe if isinstance(recipe, Unfinished) else render(recipe, self.site)

    @property
    def nodes_are_separate(self) -> bool:
        """Return False in flat mode of the box, in which all nodes share one network."""
        return not self.site.box or not clusters.FLAT.search(clusters.sinfo().stderr)

    @property
    def device_pace(self) -> float:
        """Return by what factor a device slot is slower than a core: 1 on GPUs."""
        return RecordingIndex.of(self.workspace).device_pace if self.site.recorded else slot_pace()

    def code(self, file: str, *names: str) -> Script:
        """Return functions of a program's source: `lab.code("training/model.py", "initialise")`."""
        return excerpt(Path(self.site.programs), file, names)

    def submit(self, recipe: Recipe | Unfinished, *, again: bool = False) -> Run | Unfinished:
        """The run of this recipe, an existing or a new one.

        The same recipe at the same site is submitted only once. It is submitted again if its run
        was cancelled, if it failed before its first iteration, or with `again=True`.
        """
        if isinstance(recipe, Unfinished):
            print(recipe)
            return recipe
        if self.site.missing:
            raise SiteError(
                _(
                    "site {name} still needs {missing}; write it into {site_file}",
                    name=self.site.name,
                    missing=", ".join(self.site.missing),
                    site_file=self.workspace.site_file,
                )
            )
        if lines := gaps_in_files(recipe, self.site):
            print(unfinished := Unfinished(recipe.name, lines))
            return unfinished
        wanted = Submission.of(recipe, self.site)  # raises its errors before anything is written
        check_writable(self.workspace)
        with self.workspace.locked() as lock:
            repair(self.jobs)
            older = _same_recipe(self.jobs, wanted)
            if older is not None and not again:
                self.say(_already(older))
                return older
            if self.site.recorded:
                return Run(self.jobs, _recorded_run(self.jobs, wanted))
            return Run(self.jobs, _new_run(self.jobs, wanted, lock))

    def mystery(self, seed: int) -> Run | Unfinished:
        """Submit a blind case: a run with one fault. Every seed is a different case."""
        return self.submit(mysteries.mystery(seed))

    def runs(self) -> pd.DataFrame:
        """Return all runs of the workspace, newest first."""
        import pandas as pd

        return pd.DataFrame(self.run_rows(), columns=RUN_COLUMNS)

    def run_rows(self) -> list[dict[str, Any]]:
        records = self.jobs.records()
        statuses = self.jobs.statuses(records)
        return [run_row(record, statuses[record.token]) for record in reversed(records)]

    def run(self, which: Which) -> Run:
        """Return the newest run with a name, or the run with a job id."""
        if isinstance(which, Run):
            return which
        number, submitted = whole(which), self.jobs.registry.all()
        kept = [record for record in submitted if not record.cleaned]
        records = [r for r in kept if r.name == which or r.job_id == number]
        here = [record for record in records if record.cluster == self.jobs.cluster]
        if records:
            return Run(self.jobs, (here or records)[-1])
        names = sorted({record.name for record in kept})
        known = (
            _("this workspace has: {names}", names=", ".join(names))
            if names
            else _("nothing was submitted yet")
        )
        raise UnknownRunError(
            _(
                "no run {which} in {runs}; {known}",
                which=shown(which),
                runs=self.workspace.runs,
                known=known,
            )
        )

    def open(self, folder: str | Path) -> Run:
        """Open a run in another folder, such as a recorded run. It cannot be cancelled."""
        return Run(self.jobs, recorded(Path(folder)))

    def elsewhere(self, recipe: Recipe | Unfinished) -> list[Run]:
        """Return runs of this recipe that were recorded on other clusters, for comparison."""
        if isinstance(recipe, Unfinished):
            return []
        return [
            Run(self.jobs, record) for record in runs_elsewhere(self.workspace, recipe, self.site)
        ]

    def cancel(self, which: Which | Unfinished | Iterable[Which | Unfinished]) -> None:
        """Cancel runs of this workspace, and no other job."""
        if isinstance(which, str) or not isinstance(which, Iterable):
            which = [which]
        for one in which:
            if not isinstance(one, Unfinished):
                self._cancel(one)

    def stacks(self, which: Which) -> Stacks:
        """Return where every rank of a running job is now. The job continues."""
        from course_lib.lab.runs.stacks import ask_stacks

        return ask_stacks(self.run(which))

    def _cancel(self, which: Which) -> None:
        try:
            self.run(which).cancel()
        except UnknownRunError as error:
            raise UnknownRunError(
                _(
                    "{error}. The lab cancels only jobs of this workspace. To cancel a "
                    "different job of yours, run scancel {which}",
                    error=error,
                    which=which,
                )
            ) from error

    def clean(self, *which: Which | Unfinished, yes: bool = False) -> Cleaning:
        """Show what would be deleted, and delete it with `yes=True`. A name selects all its runs.
        Without names, all ended runs are selected."""
        from course_lib.lab.runs.clean import clean, plan, select

        records = [record for record in self.jobs.registry.all() if not record.cleaned]
        runs, unknown = select([Run(self.jobs, record) for record in records], which)
        cleaning = plan(self.workspace, runs, unknown)
        return clean(self.jobs.registry, cleaning) if yes else cleaning

    def tensorboard(self, tab: str = "") -> Link:
        """Return a link to TensorBoard with all runs. `tab` is "scalars" or "profiler"."""
        from course_lib.lab.tensorboard import tensorboard

        return tensorboard(tab)

    @property
    def budget(self) -> Budget:
        """Return the device-hours that this workspace has used and may use."""
        return budgets.budget(self.workspace, self.jobs.records())

    def set_budget(self, device_hours: float | None) -> None:
        """Set how many device-hours this workspace may use in total. None removes the limit."""
        budgets.set_limit(self.workspace, device_hours)
        self.say(self.budget.words)


def _same_recipe(jobs: Jobs, wanted: Submission) -> Run | None:
    """Return the newest run here of the same recipe and the same program, or None. A run that was
    cancelled, or that failed before it had a result, is not returned."""
    for record in reversed(jobs.registry.all()):
        was_lent = record.cluster == RECORDED and not wanted.site.recorded
        if record.key != wanted.key or record.cleaned or was_lent:
            continue
        run = Run(jobs, record)
        if run.deleted:
            continue
        if record.program_digest != wanted.program_digest:
            what = " or ".join(wanted.recipe.files) or wanted.recipe.program
            jobs.say(
                _(
                    "{name}: {what} has changed since job {job_id}",
                    name=run.name,
                    what=what,
                    job_id=run.job_id,
                )
            )
            return None
        if run.origin or not run.has_no_result:
            return run
        jobs.say(
            _(
                "{name}: job {job_id} of the same recipe has no result ({reason})",
                name=run.name,
                job_id=run.job_id,
                reason=run.reason,
            )
        )
    return None


def _already(run: Run) -> str:
    """Return a sentence for a run that is returned instead of a new submission."""
    status = run.status
    text = _(
        "{name}: job {job_id} has the same recipe and is returned ({words})",
        name=run.name,
        job_id=run.job_id,
        words=status.words,
    )
    if run.origin:
        return f"{text}; {run.origin}"
    if status.ended or status.state == UNKNOWN:
        text += _("; submit(…, again=True) runs it again")
    return text


def _new_run(jobs: Jobs, wanted: Submission, lock: int) -> Record:
    """Submit a new run. The caller holds the lock of the workspace."""
    recipe, site = wanted.recipe, wanted.site
    budgets.budget(jobs.registry.workspace, jobs.records()).admit(recipe)
    prepare_data(recipe, site, jobs.say)
    jobs.say(f"{recipe.name}: {budgets.cost(recipe)}")
    record = submit(jobs, wanted, lock)
    jobs.say(
        _(
            "{name}: submitted to {site} as job {job_id}",
            name=recipe.name,
            site=site.name,
            job_id=record.job_id,
        )
    )
    return record


def _recorded_run(jobs: Jobs, wanted: Submission) -> Record:
    record, found = hand_out(jobs.registry, wanted)
    name, job_id, words = record.name, record.job_id, recorded_words(found.words)
    jobs.say(_("{name}: job {job_id}: {words}", name=name, job_id=job_id, words=words))
    return record
