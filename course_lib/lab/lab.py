"""The object that a notebook talks to."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.lab import clusters
from course_lib.lab.errors import SiteError, SlurmError, UnknownRunError
from course_lib.lab.job import sample_text
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.script import Script, key, render
from course_lib.lab.job.site import Site
from course_lib.lab.job.sources import digest
from course_lib.lab.job.unfinished import Unfinished
from course_lib.lab.queue import states
from course_lib.lab.queue.poller import PAUSES_ON_THE_BOX_S, PAUSES_S, Poller
from course_lib.lab.queue.records import Record, Registry, recorded
from course_lib.lab.queue.slurm import Slurm
from course_lib.lab.queue.submission import Desk, check_writable, repair, submit
from course_lib.lab.runs import budget as budgets
from course_lib.lab.runs.budget import Budget
from course_lib.lab.runs.run import Run
from course_lib.lab.runs.tables import QUEUE_COLUMNS, RUN_COLUMNS, queue_row, run_row
from course_lib.lab.workspace import Workspace, find

if TYPE_CHECKING:
    import pandas as pd

    from course_lib.lab.runs.clean import Cleaning
    from course_lib.lab.tensorboard import Link

Which = Run | str | int


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
        if self.site.box:
            clusters.put_box_on_path()
        self.say(f"Lab: {choice.why}; runs go to {self.workspace.runs}")
        self._make()
        self._repair()

    def _make(self) -> None:
        self.registry = Registry(self.workspace)
        self.slurm = Slurm()
        pauses_s = PAUSES_ON_THE_BOX_S if self.site.box else PAUSES_S
        self._poller = Poller(self.registry, self.slurm, lambda: self.cluster, pauses_s)

    def __repr__(self) -> str:
        return f"<Lab at {self.site.name}, workspace {self.workspace.folder}>"

    def say(self, text: str) -> None:
        if not self._quiet:
            print(text)

    @cached_property
    def cluster(self) -> str:
        """Name of the cluster, by which its job ids are told from another's."""
        return self.slurm.cluster()

    def but(self, **changes: Any) -> Lab:
        """The same lab at a site with some values changed: `lab.but(link_gbit=0.2)`."""
        other = object.__new__(Lab)
        other.__dict__ |= self.__dict__ | {"site": self.site.but(**changes)}
        return other

    def script(self, recipe: Recipe | Unfinished) -> Script | Unfinished:
        """The batch script of a recipe, exactly as it will be submitted."""
        return recipe if isinstance(recipe, Unfinished) else render(recipe, self.site)

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
        script = render(recipe, self.site)  # errors of the recipe come before anything is written
        check_writable(self.workspace)
        with self.workspace.locked():
            repair(self.desk)
            older = self._run_of(recipe)
            if older is not None and not again:
                self.say(_already(older))
                return older
            budget = budgets.budget(self.workspace, self._settled())
            budget.admit(recipe)
            sample_text.prepare(
                recipe, Path(self.site.data), Path(self.site.programs), self.say
            )  # fmt: skip
            self.say(f"{script.name}: {budgets.cost(recipe, self.site)}")
            record = submit(self.desk, recipe)
        self.say(f"{script.name}: submitted to {self.site.name} as job {record.job_id}")
        return Run(self, record)

    def runs(self) -> pd.DataFrame:
        """All runs of the workspace, the newest first."""
        import pandas as pd

        return pd.DataFrame(self.run_rows(), columns=RUN_COLUMNS)

    def run_rows(self) -> list[dict[str, Any]]:
        records = self._settled()
        statuses = self._poller.statuses(records)
        return [run_row(record, statuses[record.token]) for record in reversed(records)]

    def run(self, which: Which) -> Run:
        """The newest run of a name, or the run of a job id."""
        if isinstance(which, Run):
            return which
        records = [r for r in self.registry.all() if which in (r.name, r.job_id) and not r.cleaned]
        here = [record for record in records if record.cluster == self.cluster]
        if records:
            return Run(self, (here or records)[-1])
        names = sorted({r.name for r in self.registry.all() if not r.cleaned})
        known = f"there are: {', '.join(names)}" if names else "nothing was submitted yet"
        raise UnknownRunError(f"no run {which!r} in {self.workspace.runs}; {known}")

    def open(self, folder: str | Path) -> Run:
        """A run that lies somewhere else, such as a recorded one: to be read, never cancelled."""
        return Run(self, recorded(Path(folder)))

    def queue(self) -> pd.DataFrame:
        """Your jobs that have not ended; `course` tells those of this workspace."""
        import pandas as pd

        return pd.DataFrame(self.queue_rows(), columns=QUEUE_COLUMNS)

    def queue_rows(self) -> list[dict[str, Any]]:
        marks = {record.mark for record in self.registry.all()}
        rows = [row for row in self._poller.rows() if not row.status.ended]
        return [queue_row(row, row.comment in marks) for row in rows]

    def cancel(self, which: Which | Unfinished | Iterable[Which | Unfinished]) -> None:
        """Ends runs of this workspace, and no other job."""
        for one in [which] if isinstance(which, Run | Unfinished | str | int) else which:
            if not isinstance(one, Unfinished):
                self._cancel(one)

    def _cancel(self, which: Which) -> None:
        try:
            run = self.run(which)
        except UnknownRunError as error:
            raise UnknownRunError(
                f"{error}. The lab cancels only what this workspace submitted; for another job of "
                f"yours: scancel {which}"
            ) from error
        if run.ended:
            self.say(f"{run.name}: job {run.job_id} has ended already: {run.reason}")
            return
        self.registry.update(run._record, cancel_asked=True)
        self.slurm.cancel([run.job_id])
        self._poller.forget()
        self.say(f"{run.name}: job {run.job_id} is being cancelled")

    def clean(
        self, *which: Which | Unfinished, only: Iterable[str] | str = (), yes: bool = False
    ) -> Cleaning:  # fmt: skip
        """Shows what would be deleted; deletes it with `yes=True`. A name means all its runs; no
        name means all that have ended. `only` names parts of a run folder, such as "checkpoints".
        """
        from course_lib.lab.runs.clean import clean, plan, select

        runs, unknown = select(self._all_runs(), which)
        parts = (only,) if isinstance(only, str) and only else tuple(only)
        cleaning = plan(self.workspace, runs, parts, unknown)
        return clean(self.registry, cleaning) if yes else cleaning

    def tensorboard(self, tab: str = "") -> Link:
        """A link to TensorBoard over all runs; `tab` is "scalars" or "profiler"."""
        from course_lib.lab.tensorboard import tensorboard

        return tensorboard(self.workspace.runs, tab)

    @property
    def budget(self) -> Budget:
        return budgets.budget(self.workspace, self._settled())

    def set_budget(self, device_hours: float | None) -> None:
        """How many device-hours this workspace may spend in all; None lifts the limit."""
        budgets.set_limit(self.workspace, device_hours)
        self.say(self.budget.words)

    @property
    def desk(self) -> Desk:
        return Desk(
            self.workspace, self.registry, self.slurm, self._poller, self.site, lambda: self.cluster
        )

    def pause_s(self, looks: int) -> float:
        return self._poller.pause_s(looks)

    def look(self, record: Record, max_age_s: float | None = None) -> tuple[states.Status, Record]:
        """Status and record as they are now; for `Run`."""
        if record.status is not None:
            return record.status, record
        status = self._poller.status(record, max_age_s)
        if status.ended:
            record = next((r for r in self.registry.all() if r.token == record.token), record)
        return status, record

    def _run_of(self, recipe: Recipe) -> Run | None:
        """The newest run of the same recipe here, made with the program as it is now."""
        wanted, version = key(recipe, self.site), digest(recipe, self.site)
        for record in reversed(self.registry.all()):
            if record.key != wanted or record.cleaned:
                continue
            if not (self.workspace.runs / record.folder).is_dir():
                continue
            if record.program_digest != version:
                self.say(f"{recipe.name}: {recipe.program} has changed since job {record.job_id}")
                return None
            return Run(self, record)
        return None

    def _all_runs(self) -> list[Run]:
        return [Run(self, record) for record in self.registry.all() if not record.cleaned]

    def _settled(self) -> list[Record]:
        """All records, after a look at those whose jobs had not ended."""
        records = self.registry.all()
        if any(record.status is None for record in records):
            self._poller.statuses(records)
            records = self.registry.all()
        return records

    def _repair(self) -> None:
        try:
            unfinished = self.registry.intents() or [
                r for r in self.registry.all() if not r.released and r.status is None
            ]
            if unfinished:
                with self.workspace.locked():
                    for record in repair(self.desk):
                        self.say(
                            f"{record.name}: job {record.job_id} was half submitted; it is now"
                        )
        except SlurmError as error:
            self.say(f"Lab: a submission was left half done, and Slurm does not answer: {error}")


def _already(run: Run) -> str:
    """What stands in for a submission, and how to have one all the same."""
    status = run.status
    text = f"{run.name}: job {run.job_id} is of the same recipe, and is returned ({status.words})"
    if status.ended or status.state == states.UNKNOWN:
        text += "; submit(…, again=True) runs it once more"
    return text
