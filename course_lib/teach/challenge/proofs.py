"""Whether a run is what it claims to be: what does not fit together, each in a sentence.

None of this is a lock. A workspace is its owner's, who could change every file in it. But what is
told here is told from several sides (recipe, script, record, log, weights, the cluster's accounts,
a draw of text that nobody could foresee), and who bends one of them is contradicted by another.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.lab.errors import LabError, SlurmError
from course_lib.lab.job.recipes import gpt
from course_lib.lab.job.script import key, render
from course_lib.lab.job.site import Site
from course_lib.lab.queue.records import Record
from course_lib.teach.challenge import pledge, text
from course_lib.teach.checks.common import whole_flag

if TYPE_CHECKING:
    from course_lib.lab.lab import Lab
    from course_lib.teach.challenge.judgement import Judgement
    from course_lib.teach.challenge.task import Task

UNIT = "\x1f"
SPLIT = "100,0,0"
"""All of the text is learned from; what judges is another one."""
FOREIGN = ("--load", "--finetune", "--mock-data")
DOUBT_NATS, TOO_EASY_NATS = 0.05, 0.1
"""By which the held-out text may seem easier than the text that was learned, before more samples
are asked, and then. Honest runs were found within 0.04; one that reads it half the time at 0.15."""
SAME_WEIGHTS_NATS = 0.4
"""Between the log's last loss and that of the saved weights, on text that was learned."""
ROUNDED_S = 3.0
"""Accounts count whole seconds, and learn of an end a moment later."""
LATE_S = 10.0
"""What the end of a log may come late, and the clock of another machine go wrong."""


@dataclass(frozen=True)
class Account:
    """What the cluster says of a job. `owner`, a number, and `name` are empty where it keeps no
    accounts, the two times (of the clock) infinite."""

    seconds: float
    owner: str = ""
    name: str = ""
    began_s: float = math.inf
    ended_s: float = math.inf


def refuse_what_is_no_try(run: Any) -> None:
    """Without these there is nothing to judge."""
    if not (hasattr(run, "recipe") and hasattr(run, "paths")):
        raise LabError("task.score takes a run: what lab.submit(…) returned")
    if not run.ended:
        raise LabError(f"{run.name} is {run.state}; wait for its end with run.wait()")
    if not run.ok:
        raise LabError(f"{run.name} did not end well, and only a whole run counts:\n{run.error}")
    if pledge.of_recipe(run.recipe.environment) is None:
        raise LabError(
            f"{run.name} foresees nothing: make its recipe with task.recipe(…, seconds=…)"
        )


def account_of(lab: Lab, run: Any) -> Account:
    """The cluster's own word for how long a job took; that of the records where it has none."""
    command = ("sacct", "-X", "-n", "-P", f"--delimiter={UNIT}", "-S", "2020-01-01")
    fields = ("-j", str(run.job_id), "-o", "JobIDRaw,ElapsedRaw,UID,Start,End,JobName")
    try:
        lines = lab.jobs.slurm.call(*command, *fields).splitlines()
    except SlurmError:
        lines = []
    for line in lines:
        number, seconds, owner, began, ended, name = [*line.split(UNIT, 5), *[""] * 6][:6]
        if number == str(run.job_id) and seconds.isdecimal():
            return Account(float(seconds), owner, name, _moment(began), _moment(ended))
    return Account(float(run.elapsed_s or 0.0))


def _moment(said: str) -> float:
    """2026-11-20T09:31:00, on the clock here; infinite where it is no time, or in another form."""
    try:
        return datetime.fromisoformat(said).timestamp()
    except ValueError:
        return math.inf


def noticed(
    task: Task, run: Any, found: Judgement, said: Account, wanted: str
) -> Iterator[str]:  # fmt: skip
    """Every reason for which this run does not count."""
    record = task.lab.jobs.registry.owner_of(run.folder)
    yield from _whose(task, run, record, said)
    if record is not None:
        yield from _what_was_asked(run, record)
    yield from _what_ran(task, run)
    yield from _what_was_learned(task, run, wanted)
    yield from _which_weights(run, found)
    yield from _touched_since(run, said)
    yield from _too_easy(found)
    yield from _how_long(run, said)


def _whose(task: Task, run: Any, record: Record | None, said: Account) -> Iterator[str]:
    here = task.lab.workspace
    if record is None or run.folder.resolve().parent != here.runs.resolve():
        yield f"this workspace has not submitted job {run.job_id}: it is somebody else's run"
    promise = pledge.of_recipe(run.recipe.environment)
    if promise and promise.workspace != pledge.identity(here):
        yield "its time was foreseen in another workspace: it is somebody else's run"
    if said.owner and said.owner != str(os.getuid()):
        yield f"job {run.job_id} of this cluster is one of another account, not yours"
    if said.name and said.name != run.name:
        yield f"job {run.job_id} of this cluster is another one, not {run.name}"


def _what_was_asked(run: Any, record: Record) -> Iterator[str]:
    """Recipe, script and record say the same in three ways."""
    try:
        site = Site(**run.site)
        if key(run.recipe, site) != record.key:
            yield "recipe.toml is not what was submitted: it was edited since"
        elif render(run.recipe, site).text != run.script.text:
            yield "job.sbatch is not the script of its recipe: it was edited since"
    except (LabError, OSError, TypeError, UnicodeDecodeError):
        yield "recipe.toml and job.sbatch cannot be read any more"


def _what_ran(task: Task, run: Any) -> Iterator[str]:
    recipe = run.recipe
    if recipe.program != gpt.PROGRAM or recipe.files:
        yield f"it has run another program than {gpt.PROGRAM}"
    if recipe.before or recipe.commands or recipe.script:
        yield "its job has run other commands besides the training"
    if chosen := sorted(set(recipe.environment) - {pledge.VARIABLE}):
        yield (
            f"its environment ({', '.join(chosen)}) may change what runs, and how fast its devices "
            "are"
        )
    if run.site.get("link_gbit", 0) != task.lab.site.link_gbit:
        yield "it has chosen how fast the link between its nodes is"
    ranks = run.log.world.world_size
    if ranks is not None and ranks != recipe.devices:
        yield f"{ranks} ranks have worked; the devices of its recipe are {recipe.devices}"


def _what_was_learned(task: Task, run: Any, wanted: str) -> Iterator[str]:
    flags = run.recipe.flags
    if flags.get("--data-path") != task.learn or flags.get("--split") != SPLIT:
        yield "it has learned from another text than the one given (--data-path, --split)"
    if begun := [flag for flag in FOREIGN if flag in flags]:
        yield f"it did not begin with random weights and the text given ({', '.join(begun)})"
    if text.digest(text.folder(task.lab.workspace)) != wanted:
        yield (
            "the text in data/challenge is not the one that code/challenge/text.py makes: it was "
            "edited. Delete the folder, and train again"
        )


def _which_weights(run: Any, found: Judgement) -> Iterator[str]:
    steps, batch = (whole_flag(run, f"--{name}") for name in ("train-iters", "global-batch-size"))
    if (found.iteration, found.samples) != (steps, steps * batch):
        yield (
            f"the weights have seen {found.samples:,} samples in {found.iteration:,} steps, the "
            f"recipe asked for {steps * batch:,} in {steps:,}: they are another run's"
        )
    asked = run.recipe.flags
    if other := [f"--{name} {is_}" for name, is_ in _told(found) if is_ != asked.get(f"--{name}")]:
        yield f"the weights are of another model than the recipe's ({', '.join(other)})"
    losses = run.log.iterations["lm_loss"].dropna()
    told = "no loss"
    if len(losses):
        last = float(losses.tail(max(1, len(losses) // 10)).mean())
        if abs(last - found.learned) < SAME_WEIGHTS_NATS:
            return
        told = f"a loss of {last:.2f} at the end"
    yield (
        f"the log says {told}, and the weights have {found.learned:.2f} on the same text: log and "
        "weights are not of one run"
    )


def _told(found: Judgement) -> Iterator[tuple[str, str]]:
    """The shape, as flags."""
    for name in ("num-layers", "hidden-size", "num-attention-heads"):
        if (value := found.model.get(name.replace("-", "_"))) is not None:
            yield name, str(value)


def _touched_since(run: Any, said: Account) -> Iterator[str]:
    """When a file was changed last its owner cannot choose, unlike the time that `ls` shows."""
    weights = sorted(path for path in run.paths.checkpoints.rglob("*") if path.is_file())
    written = dict.fromkeys([run.paths.log, *weights], said.ended_s + LATE_S)
    written |= dict.fromkeys([run.paths.recipe, run.paths.script], said.began_s + ROUNDED_S)
    late = [path.name for path, until_s in written.items() if _changed_s(path) > until_s]
    if late:
        yield (
            f"{', '.join(late[:3])}{' …' if late[3:] else ''} of its folder changed (or was copied "
            "there) after the job had written it"
        )


def _changed_s(path: Path) -> float:
    try:
        return path.stat(follow_symlinks=False).st_ctime
    except OSError:
        return -math.inf


def _too_easy(found: Judgement) -> Iterator[str]:
    """Both texts are of one kind. Who learned from the one finds it the easier one, and by as much
    as that helps: so the reading of the held-out text shows in proportion to its use."""
    if easier(found) > TOO_EASY_NATS:
        yield (
            f"it finds the held-out text ({found.judged:.2f}) easier than the text that it should "
            f"have learned from ({found.learned:.2f}): it has learned from the held-out text"
        )


def easier(found: Judgement) -> float:
    """Nats by which the held-out text is."""
    return found.learned - found.judged


def _how_long(run: Any, said: Account) -> Iterator[str]:
    iterations = run.log.iterations
    interval = float(run.recipe.flags.get("--log-interval", 1))
    told_s = float((iterations["elapsed_ms"] * interval).sum()) / 1e3
    if told_s > said.seconds + ROUNDED_S:
        yield (
            f"the log tells of {told_s:.0f} s of training, the cluster of {said.seconds:.0f} s for "
            "the whole job: the log was edited"
        )
