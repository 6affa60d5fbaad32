"""What a run is worth: judged from its saved weights, its log and the accounts of the cluster."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.lab.errors import LabError
from course_lib.lab.queue.records import Record
from course_lib.mistakes.names import answers_misspelt
from course_lib.teach.challenge import pledge, proofs, text
from course_lib.words import told

if TYPE_CHECKING:
    from course_lib.teach.challenge.task import Task

SAMPLES, SAMPLES_IN_DOUBT = 1024, 4096
"""Of each text, per judgement: its standard error is one or two hundredths of a nat."""
GIVEN: set[Score] = set()
"""Scores as they were given in this notebook; one with other figures is none of them."""


@dataclass(frozen=True)
class Judgement:
    """What code/challenge/judge.py says of the weights."""

    iteration: int
    samples: int
    seed: int
    judged: float
    error: float
    learned: float
    model: Mapping[str, Any] = field(default_factory=dict)


@answers_misspelt
@dataclass(frozen=True, repr=False)
class Score:
    """`loss` is held out; `learned` that of the text which the run learned from. `noticed` says
    in sentences why the run does not count; empty where it does. `job` is a name for the job that
    no other job has, also where a cluster made anew counts from 1 again."""

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
        lines += [f"  does not count: {said}" for said in self.noticed]
        return told("\n".join(lines))


def scored(task: Task, run: Any) -> Score:
    """Refuses what cannot be judged; what can, and should not count, is told in `noticed`."""
    proofs.refuse_what_is_no_try(run)
    with ThreadPoolExecutor(1) as beside:
        anew = beside.submit(text.made_anew, task.lab)
        found = judge(task, run.paths.checkpoints)
        if proofs.easier(found) > proofs.DOUBT_NATS:
            found = judge(task, run.paths.checkpoints, SAMPLES_IN_DOUBT)
        wanted = anew.result()
    account = proofs.account_of(task.lab, run)
    promise = pledge.of_recipe(run.recipe.environment)
    score = Score(
        run=run.name,
        job_id=run.job_id,
        job=name_of(task.lab.jobs.registry.owner_of(run.folder)),
        workspace=pledge.identity(task.lab.workspace),
        target=task.target,
        digest=wanted,
        loss=found.judged,
        error=found.error,
        learned=found.learned,
        seed=found.seed,
        tokens=found.samples * (run.recipe.model.sequence if run.recipe.model else 0),
        seconds=account.seconds,
        devices=run.recipe.devices,
        foreseen=promise.seconds if promise else math.nan,
        noticed=tuple(proofs.noticed(task, run, found, account, wanted)),
    )
    GIVEN.add(score)
    return score


def name_of(record: Record | None) -> str:
    """From what the lab drew when it submitted; nothing can be told from it."""
    return hashlib.sha256(record.token.encode()).hexdigest()[:16] if record else ""


def judge(task: Task, checkpoints: Path, samples: int = SAMPLES) -> Judgement:
    """A draw that nobody could foresee: its seed is chosen now."""
    seed = secrets.randbelow(2**32)
    said = text.start(
        "challenge/judge.py", "--load", str(checkpoints), "--text", task.judge, task.learn,
        "--samples", str(samples), "--seed", str(seed),
    )  # fmt: skip
    try:
        told = json.loads(said.splitlines()[-1])
        texts = told["texts"]
        judged, learned = texts[task.judge], texts[task.learn]
        return Judgement(
            int(told["iteration"]), int(told["samples"]), seed,
            float(judged["loss"]), float(judged["error"]), float(learned["loss"]),
            dict(told["model"]),
        )  # fmt: skip
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise LabError(f"the judge said nothing that could be read: {said[-300:]!r}") from error
