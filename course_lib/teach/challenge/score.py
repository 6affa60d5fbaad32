"""What a run is worth: judged from its saved weights, its log and the accounts of the cluster."""

from __future__ import annotations

import hashlib
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course_lib.lab.queue.records import Record
from course_lib.mistakes.names import answers_misspelt
from course_lib.teach.challenge import pledge, proofs, text
from course_lib.teach.challenge.judgement import SAMPLES_IN_DOUBT, Judgement, judge, keep, kept
from course_lib.words import told

if TYPE_CHECKING:
    from course_lib.teach.challenge.task import Task

GIVEN: set[Score] = set()
"""Scores as they were given in this notebook; one with other figures is none of them."""


@answers_misspelt
@dataclass(frozen=True, repr=False)
class Score:
    """`loss` is held out; `learned` that of the text which the run learned from. `noticed` says
    in sentences why the run does not count; empty where it does. `job` is a name for the job that
    no other job has, also where a cluster made anew counts from 1 again. `origin` says of a
    recorded run where it was judged."""

    run: str
    job_id: int
    job: str
    workspace: str
    target: float
    digest: str
    loss: float
    error: float
    learned: float
    seed: int
    tokens: int
    seconds: float
    devices: int
    foreseen: float
    noticed: tuple[str, ...] = ()
    origin: str = ""

    @property
    def device_minutes(self) -> float:
        return self.seconds * self.devices / 60

    @property
    def counts(self) -> bool:
        return not self.noticed

    @property
    def reached(self) -> bool:
        return self.counts and self.loss <= self.target

    @property
    def off_by(self) -> float:
        """The factor by which the time was foreseen wrongly, too long or too short."""
        if not (self.foreseen > 0 and self.seconds > 0):
            return math.inf
        return max(self.foreseen / self.seconds, self.seconds / self.foreseen)

    @property
    def result(self) -> float:
        """By which the board is ordered: seconds, times `off_by`."""
        return self.seconds * self.off_by

    def __repr__(self) -> str:
        goal = "reached" if self.loss <= self.target else "NOT reached"
        lines = [
            f"{self.run} (job {self.job_id})",
            f"  held-out loss   {self.loss:.3f} ± {self.error:.3f}  "
            f"(asked: {self.target:g}; {goal})",
            f"  tokens          {self.tokens:,}",
            f"  time            {self.seconds:.0f} s  (foreseen: {self.foreseen:.0f} s, off by a "
            f"factor of {self.off_by:.2f})",
            f"  device-minutes  {self.device_minutes:.2f}  (on {self.devices} "
            f"{'device' if self.devices == 1 else 'devices'})",
            f"  score           {self.result:.1f} s" if self.reached else "  score           none",
        ]
        lines += [f"  {self.origin}, and judged there"] if self.origin else []
        lines += [f"  does not count: {said}" for said in self.noticed]
        return told("\n".join(lines))


def scored(task: Task, run: Any) -> Score:
    """Refuses what cannot be judged; what can, and should not count, is told in `noticed`."""
    proofs.refuse_what_is_no_try(run)
    if run.origin:
        account = proofs.Account(float(run.elapsed_s or 0.0))
        return _score(task, run, kept(run), account, task.digest)
    with ThreadPoolExecutor(1) as beside:
        anew = beside.submit(text.made_anew, task.lab)
        found = judge(task, run.paths.checkpoints)
        if proofs.easier(found) > proofs.DOUBT_NATS:
            found = judge(task, run.paths.checkpoints, SAMPLES_IN_DOUBT)
        wanted = anew.result()
    keep(run, found)
    account = proofs.account_of(task.lab, run)
    noticed = tuple(proofs.noticed(task, run, found, account, wanted))
    score = _score(task, run, found, account, wanted, noticed)
    GIVEN.add(score)
    return score


def _score(
    task: Task, run: Any, found: Judgement, account: proofs.Account, digest: str,
    noticed: tuple[str, ...] = (),
) -> Score:  # fmt: skip
    promise = pledge.of_recipe(run.recipe.environment)
    return Score(
        run=run.name,
        job_id=run.job_id,
        job=name_of(task.lab.jobs.registry.owner_of(run.folder)),
        workspace=pledge.identity(task.lab.workspace),
        target=task.target,
        digest=digest,
        loss=found.judged,
        error=found.error,
        learned=found.learned,
        seed=found.seed,
        tokens=found.samples * (run.recipe.model.sequence if run.recipe.model else 0),
        seconds=account.seconds,
        devices=run.recipe.devices,
        foreseen=promise.seconds if promise else math.nan,
        noticed=noticed,
        origin=run.origin,
    )


def name_of(record: Record | None) -> str:
    """From what the lab drew when it submitted; nothing can be told from it."""
    return hashlib.sha256(record.token.encode()).hexdigest()[:16] if record else ""
