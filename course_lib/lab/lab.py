"""The object that a notebook talks to."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.lab import clusters, mysteries
from course_lib.lab.errors import SiteError, SlurmError, UnknownRunError, WorkspaceError
from course_lib.lab.job import own_files
from course_lib.lab.job.program_text import Excerpt, excerpt
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.script import Script, render
from course_lib.lab.job.site import Site
from course_lib.lab.job.unfinished import Unfinished
from course_lib.lab.queue.jobs import PAUSES_ON_THE_BOX_S, PAUSES_S, Jobs
from course_lib.lab.queue.pace import told_pace
from course_lib.lab.queue.records import Registry, recorded
from course_lib.lab.queue.slurm import Slurm
from course_lib.lab.queue.submission import Submission, check_writable, repair
from course_lib.lab.recorded.lend import NoSlurm, others
from course_lib.lab.recorded.shelf import Shelf
from course_lib.lab.runs import budget as budgets
from course_lib.lab.runs.budget import Budget
from course_lib.lab.runs.obtain import already, new_run, recorded_run, same_recipe
from course_lib.lab.runs.run import Run
from course_lib.lab.runs.tables import QUEUE_COLUMNS, RUN_COLUMNS, queue_row, run_row
from course_lib.lab.workspace import Workspace, find
from course_lib.mistakes.arguments import explained_methods
from course_lib.mistakes.kinds import shown
from course_lib.mistakes.names import answers_misspelt
from course_lib.plan.numbers import whole
from course_lib.words import told

if TYPE_CHECKING:
    import pandas as pd

    from course_lib.lab.runs.clean import Cleaning
    from course_lib.lab.tensorboard import Link
    from course_lib.read import Stacks

Which = Run | str | int
NOT_OFFERED = ("jobs", "queue_rows", "run_rows", "say")
"""By completion: commands and runs ask for them, no learner does."""


@answers_misspelt
@explained_methods(
    "lab", "__init__", "but", "script", "code", "submit", "run", "open", "elsewhere", "cancel",
    "clean", "mystery", "stacks", "tensorboard", "set_budget",
)  # fmt: skip
class Lab:
    """A workspace, a site and the runs made there.

    `folder`: the workspace (found if not given). `site`: a Site or the name of a preset; else
    site.toml of the workspace; else the cluster that answers here; else the box.
    """

    def __init__(
        self, folder: str | Path | None = None, *, site: Site | str | None = None,
        quiet: bool = False,
    ):  # fmt: skip
        self.workspace = Workspace(Path(folder).resolve()) if folder else find()
        choice = clusters.choose(self.workspace, site)
        self.site, self._quiet = choice.site, quiet
        clusters.put_commands_on_path(self.site)
        self.say(f"Lab: {choice.why}; runs go to {self.workspace.runs}")
        pauses_s = PAUSES_ON_THE_BOX_S if self.site.box else PAUSES_S
        slurm = NoSlurm() if self.site.recorded else Slurm()
        self.jobs = Jobs(Registry(self.workspace), pauses_s, self.say, slurm)
        self._finish_half_submitted()

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in NOT_OFFERED]

    def __repr__(self) -> str:
        how = "recorded at" if self.site.recorded else "at"
        return f"<Lab {how} {self.site.name}, workspace {self.workspace.folder}>"

    def say(self, text: str) -> None:
        if not self._quiet:
            print(told(text))

    @property
    def work(self) -> Path:
        """The folder for programs of your own: `%%writefile "{lab.work}/my_ring.py"`."""
        return self.workspace.work

    def but(self, **changes: Any) -> Lab:
        """The same lab at a site with some values changed: `lab.but(link_gbit=0.2)`."""
        other = copy(self)
        other.site = self.site.but(**changes)
        return other

    def script(self, recipe: Recipe | Unfinished) -> Script | Unfinished:
        """The batch script of a recipe, exactly as it will be submitted."""
        return recipe if isinstance(recipe, Unfinished) else render(recipe, self.site)

    @property
    def device_pace(self) -> float:
        """How many times longer a device slot takes than a core would: 1 on GPUs."""
        return Shelf.of(self.workspace).device_pace if self.site.recorded else told_pace()

    def code(self, file: str, *names: str) -> Excerpt:
        """Functions of a program as they stand: `lab.code("training/model.py", "initialise")`."""
        return excerpt(Path(self.site.programs), file, names)

    def submit(self, recipe: Recipe | Unfinished, *, again: bool = False) -> Run | Unfinished:
        """The run of this recipe: the one there is, or a new one.

        The same recipe at the same site is submitted once; `again=True` submits it once more, as
        a run that failed needs if its cause lay elsewhere.
        """
        if isinstance(recipe, Unfinished):
            print(recipe)
            return recipe
        if self.site.missing:
            raise SiteError(
                f"site {self.site.name}: {', '.join(self.site.missing)} still to be filled in; "
                f"write it into {self.workspace.site_file}"
            )
        if lines := own_files.gaps(recipe, self.site):
            print(unfinished := Unfinished(recipe.name, lines))
            return unfinished
        wanted = Submission.of(recipe, self.site)  # its errors come before anything is written
        check_writable(self.workspace)
        with self.workspace.locked():
            repair(self.jobs)
            older = same_recipe(self.jobs, wanted)
            if older is not None and not again:
                self.say(already(older))
                return older
            obtain = recorded_run if self.site.recorded else new_run
            return Run(self.jobs, obtain(self.jobs, wanted))

    def mystery(self, seed: int) -> Run | Unfinished:
        """Submits a blind case: a run with one fault. Every seed is another."""
        return self.submit(mysteries.mystery(seed))

    def runs(self) -> pd.DataFrame:
        """All runs of the workspace, the newest first."""
        import pandas as pd

        return pd.DataFrame(self.run_rows(), columns=RUN_COLUMNS)

    def run_rows(self) -> list[dict[str, Any]]:
        records = self.jobs.records()
        statuses = self.jobs.statuses(records)
        return [run_row(record, statuses[record.token]) for record in reversed(records)]

    def run(self, which: Which) -> Run:
        """The newest run of a name, or the run of a job id."""
        if isinstance(which, Run):
            return which
        number, submitted = whole(which), self.jobs.registry.all()
        kept = [record for record in submitted if not record.cleaned]
        records = [r for r in kept if r.name == which or r.job_id == number]
        here = [record for record in records if record.cluster == self.jobs.cluster]
        if records:
            return Run(self.jobs, (here or records)[-1])
        names = sorted({record.name for record in kept})
        known = f"there are: {', '.join(names)}" if names else "nothing was submitted yet"
        raise UnknownRunError(f"no run {shown(which)} in {self.workspace.runs}; {known}")

    def open(self, folder: str | Path) -> Run:
        """A run that lies somewhere else, such as a recorded one: to be read, never cancelled."""
        return Run(self.jobs, recorded(Path(folder)))

    def elsewhere(self, recipe: Recipe | Unfinished) -> list[Run]:
        """Runs of this recipe that were recorded on other clusters, to be seen beside one's own."""
        if isinstance(recipe, Unfinished):
            return []
        return [Run(self.jobs, record) for record in others(self.workspace, recipe, self.site)]

    def queue(self) -> pd.DataFrame:
        """Your jobs that have not ended; `course` tells those of this workspace."""
        import pandas as pd

        return pd.DataFrame(self.queue_rows(), columns=QUEUE_COLUMNS)

    def queue_rows(self) -> list[dict[str, Any]]:
        marks = {record.mark for record in self.jobs.registry.all()}
        rows = [row for row in self.jobs.rows() if not row.status.ended]
        return [queue_row(row, row.comment in marks) for row in rows]

    def cancel(self, which: Which | Unfinished | Iterable[Which | Unfinished]) -> None:
        """Ends runs of this workspace, and no other job."""
        if isinstance(which, str) or not isinstance(which, Iterable):
            which = [which]
        for one in which:
            if not isinstance(one, Unfinished):
                self._cancel(one)

    def stacks(self, which: Which) -> Stacks:
        """Where every rank of a running job is at this moment; the job goes on."""
        return self.run(which).stacks()

    def _cancel(self, which: Which) -> None:
        try:
            self.run(which).cancel()
        except UnknownRunError as error:
            raise UnknownRunError(
                f"{error}. The lab cancels only what this workspace submitted; for another job of "
                f"yours: scancel {which}"
            ) from error

    def clean(
        self, *which: Which | Unfinished, only: Iterable[str] | str = (), yes: bool = False
    ) -> Cleaning:  # fmt: skip
        """Shows what would be deleted; deletes it with `yes=True`. A name means all its runs; no
        name means all that have ended. `only` names parts of a run folder, such as "checkpoints".
        """
        from course_lib.lab.runs.clean import clean, plan, select

        records = [record for record in self.jobs.registry.all() if not record.cleaned]
        runs, unknown = select([Run(self.jobs, record) for record in records], which)
        parts = (only,) if isinstance(only, str) else tuple(only)
        cleaning = plan(self.workspace, runs, parts, unknown)
        return clean(self.jobs.registry, cleaning) if yes else cleaning

    def tensorboard(self, tab: str = "") -> Link:
        """A link to TensorBoard over all runs; `tab` is "scalars" or "profiler"."""
        from course_lib.lab.tensorboard import tensorboard

        return tensorboard(self.workspace.runs, tab)

    @property
    def budget(self) -> Budget:
        """The device-hours that this workspace has used, and may use."""
        return budgets.budget(self.workspace, self.jobs.records())

    def set_budget(self, device_hours: float | None) -> None:
        """How many device-hours this workspace may spend in all; None lifts the limit."""
        budgets.set_limit(self.workspace, device_hours)
        self.say(self.budget.words)

    def _finish_half_submitted(self) -> None:
        try:
            if self.jobs.registry.unfinished():
                with self.workspace.locked():
                    for record in repair(self.jobs):
                        self.say(
                            f"{record.name}: job {record.job_id} was half submitted; it is now"
                        )
        except SlurmError as error:
            self.say(f"Lab: a submission was left half done, and Slurm does not answer: {error}")
        except WorkspaceError as error:
            self.say(f"Lab: a submission was left half done, and cannot be finished now: {error}")
