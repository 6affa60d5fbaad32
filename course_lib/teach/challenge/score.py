"""Score of a run, computed again from its saved weights and its job's time."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from course_lib.lab.errors import LabError
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes import gpt
from course_lib.lab.queue.records import Record
from course_lib.lab.workspace import plain, write_json
from course_lib.mistakes.names import suggests_similar_names
from course_lib.teach.challenge import text
from course_lib.words import _

if TYPE_CHECKING:
    from course_lib.teach.challenge.task import Task

# Environment variable of a recipe that holds the predicted time. It is submitted with the recipe,
# so a different prediction makes a different run.
PREDICTION = "COURSE_CHALLENGE"
# Train on all of the text. The judge uses a different text.
SPLIT = "100,0,0"
FOREIGN = ("--load", "--finetune", "--mock-data")
# Samples of a judgement. The standard error is then 0.01 to 0.02 nats.
SAMPLES = 1024
JUDGEMENT_FILE = "judgement.json"


@suggests_similar_names
@dataclass(frozen=True, repr=False)
class Score:
    """Figures of a run.

    `loss` is the held-out loss. `job` is unique even if a new cluster counts its jobs from 1 again.
    `broken_rules` lists why the run does not count; it is empty if the run counts. For a recorded
    run, `origin` says where it was judged.
    """

    run: str
    job_id: int
    job: str
    target: float
    digest: str
    loss: float
    error: float
    tokens: int
    seconds: float
    devices: int
    foreseen: float
    broken_rules: tuple[str, ...] = ()
    origin: str = ""

    @property
    def device_minutes(self) -> float:
        return self.seconds * self.devices / 60

    @property
    def counts(self) -> bool:
        return not self.broken_rules

    @property
    def reached(self) -> bool:
        return self.counts and self.loss <= self.target

    @property
    def off_by(self) -> float:
        """Return the factor between predicted and measured time, at least 1."""
        if not (self.foreseen > 0 and self.seconds > 0):
            return math.inf
        return max(self.foreseen / self.seconds, self.seconds / self.foreseen)

    @property
    def result(self) -> float:
        """Return seconds times `off_by`, the sorting key of the board."""
        return self.seconds * self.off_by

    def __repr__(self) -> str:
        figures = _(
            "{name} (job {score.job_id})\n"
            "  held-out loss   {score.loss:.3f} ± {score.error:.3f}  "
            "(target: {score.target:g}; {goal})\n"
            "  tokens          {score.tokens:,}\n"
            "  time            {score.seconds:.0f} s  "
            "(predicted: {score.foreseen:.0f} s, off by a factor of {score.off_by:.2f})\n"
            "  device-minutes  {score.device_minutes:.2f}  (devices: {score.devices})\n"
            "  score           {result}",
            name=self.run,
            score=self,
            goal=_("reached") if self.loss <= self.target else _("NOT reached"),
            result=f"{self.result:.1f} s" if self.reached else _("none"),
        )
        lines = [figures]
        lines += [_("  {origin}, and judged there", origin=self.origin)] if self.origin else []
        lines += [_("  does not count: {rule}", rule=rule) for rule in self.broken_rules]
        return "\n".join(lines)


@dataclass(frozen=True)
class Judgement:
    """Result of code/challenge/judge.py on saved weights."""

    samples: int
    judged: float
    error: float


def scored(task: Task, run: Any) -> Score:
    """Return the score of a run of the task; refuse a run that cannot be judged."""
    _refuse_unscorable(run)
    if run.origin:
        found, broken = _kept_judgement(run), tuple[str, ...]()
    else:
        found, broken = judge(task, run), tuple(broken_rules(task, run))
        with contextlib.suppress(LabError):  # for example a full disk; the score is still shown
            write_json(run.paths.verdict / JUDGEMENT_FILE, asdict(found))
    return Score(
        run=run.name,
        job_id=run.job_id,
        job=name_of(task.lab.jobs.registry.owner_of(run.folder)),
        target=task.target,
        digest=task.digest,
        loss=found.judged,
        error=found.error,
        tokens=found.samples * (run.recipe.model.sequence if run.recipe.model else 0),
        seconds=float(run.elapsed_s or 0.0),
        devices=run.recipe.devices,
        foreseen=predicted_seconds(run.recipe) or math.nan,
        broken_rules=broken,
        origin=run.origin,
    )


def predicted_seconds(recipe: Recipe) -> float | None:
    """Return the time that a recipe from `task.recipe` predicts; None if it has none."""
    found = re.match(r"\d{1,9}\.\d(?= s)", str(recipe.environment.get(PREDICTION, "")))
    return float(found[0]) if found else None


def _refuse_unscorable(run: Any) -> None:
    if not (hasattr(run, "recipe") and hasattr(run, "paths")):
        raise LabError(_("task.score needs a run, which lab.submit(…) returns"))
    run.require()
    if predicted_seconds(run.recipe) is None:
        raise LabError(
            _(
                "{run} has no predicted time; make its recipe with task.recipe(…, seconds=…)",
                run=run.name,
            )
        )


def broken_rules(task: Task, run: Any) -> Iterator[str]:
    """Yield each reason why a run does not count."""
    recipe, flags = run.recipe, run.recipe.flags
    extra = recipe.files or recipe.before or recipe.commands or recipe.script
    if recipe.program != gpt.PROGRAM or extra:
        yield _("it did not run {program}", program=gpt.PROGRAM)
    if chosen := sorted(set(recipe.environment) - {PREDICTION}):
        yield _(
            "its environment ({names}) may change how fast its devices are", names=", ".join(chosen)
        )
    if flags.get("--data-path") != task.learn or flags.get("--split") != SPLIT:
        yield _("it was trained on a different text (--data-path, --split)")
    if begun := [flag for flag in FOREIGN if flag in flags]:
        yield _(
            "it did not start from random weights on the given text ({flags})",
            flags=", ".join(begun),
        )


def judge(task: Task, run: Any) -> Judgement:
    """Measure the held-out loss of a run's saved weights on freshly drawn samples."""
    said = text.start(
        "challenge/judge.py", "--load", str(run.paths.checkpoints), "--text", task.judge,
        "--samples", str(SAMPLES), "--seed", str(secrets.randbelow(2**32)),
    )  # fmt: skip
    try:
        told = json.loads(said.splitlines()[-1])
        judged = told["texts"][task.judge]
        return Judgement(int(told["samples"]), float(judged["loss"]), float(judged["error"]))
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise LabError(
            _("the output of the evaluation cannot be read: {said!r}", said=said[-300:])
        ) from error


def _kept_judgement(run: Any) -> Judgement:
    """Read the judgement of a recorded run, whose weights are too large to record."""
    try:
        content = plain(run.paths.verdict / JUDGEMENT_FILE).read_bytes()
        return msgspec.json.decode(content, type=Judgement)
    except (OSError, msgspec.MsgspecError) as error:
        raise LabError(
            _("{run} was recorded without its weights and before it was scored", run=run.name)
        ) from error


def name_of(record: Record | None) -> str:
    """Return a digest of the job's random token, which does not reveal its owner."""
    return hashlib.sha256(record.token.encode()).hexdigest()[:16] if record else ""
