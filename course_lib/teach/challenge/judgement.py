"""What the judge says of saved weights, and where it is kept, beside the run that it is about."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from course_lib.lab.errors import LabError
from course_lib.lab.plain_files import plain
from course_lib.lab.workspace import write_json
from course_lib.teach.challenge import text

if TYPE_CHECKING:
    from course_lib.teach.challenge.task import Task

SAMPLES, SAMPLES_IN_DOUBT = 1024, 4096
"""Of each text, per judgement: its standard error is one or two hundredths of a nat."""
FILE = "judgement.json"


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


def keep(run: Any, found: Judgement) -> None:
    """For a recording: weights are too large to be recorded, what was said of them is not."""
    with contextlib.suppress(LabError):  # of a full disk; the score is told all the same
        write_json(run.paths.verdict / FILE, asdict(found))


def kept(run: Any) -> Judgement:
    """Of a recorded run."""
    try:
        content = plain(run.paths.verdict / FILE).read_bytes()
        return msgspec.json.decode(content, type=Judgement)
    except (OSError, msgspec.MsgspecError) as error:
        raise LabError(
            f"{run.name} was recorded without its weights, and before it was judged"
        ) from error
