"""Task of the challenge, and recipes that may solve it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from course_lib.lab.errors import RecipeError
from course_lib.lab.job.recipe import Recipe, own_number
from course_lib.lab.job.recipes import gpt
from course_lib.lab.job.unfinished import Unfinished, gaps
from course_lib.lab.lab import Lab
from course_lib.mistakes.arguments import explained, explained_methods
from course_lib.mistakes.names import suggests_similar_names
from course_lib.plan.numbers import real
from course_lib.plan.shapes.model import Model
from course_lib.teach.challenge import board, text
from course_lib.teach.challenge.board import Board
from course_lib.teach.challenge.score import PREDICTION, SPLIT, Score, scored
from course_lib.words import _

if TYPE_CHECKING:
    import pandas as pd

SEQUENCE, VOCABULARY, HEAD_SIZE = 64, 1024, 32
TARGET_NATS, BUDGET_DEVICE_MINUTES = 4.8, 24.0
# Settings that the task fixes; the learner cannot choose them.
FIXED = ("data_path", "split", "seq_length", "load", "finetune", "mock_data", "vocab_size",
         "vocab_file", "merge_file", "save", "environment")  # fmt: skip


@suggests_similar_names
@explained_methods("task", "recipe", "score", "enter", takes_gaps=True)
@explained_methods("task", "model")
@dataclass(frozen=True)
class Task:
    """Text to learn, target loss on a different part of it, and the budget."""

    lab: Lab = field(repr=False, compare=False)
    target: float
    device_minutes: float
    digest: str

    @property
    def learn(self) -> str:
        """Return the training text as a value for `--data-path`."""
        return str(text.folder(self.lab.workspace) / text.LEARN)

    @property
    def judge(self) -> str:
        return str(text.folder(self.lab.workspace) / text.JUDGE)

    def rules(self) -> pd.DataFrame:
        """Return a table of what is given and what the learner chooses."""
        import pandas as pd

        model = _("a GPT of any depth and width (heads of {head_size})", head_size=HEAD_SIZE)
        goal = _("held-out loss of {target:g} nats per token, or less", target=self.target)
        budget = _(
            "{device_minutes:g} device-minutes for all your jobs",
            device_minutes=self.device_minutes,
        )
        rows = {  # short texts: notebooks cut cells longer than 50 letters
            "text": (_("Python's standard library, with a vocabulary of 1,024 tokens"), "fixed"),
            "samples": (_("{sequence} tokens each", sequence=SEQUENCE), "fixed"),
            "model": (model, "free"),
            "devices": (_("all, or some of the cluster's"), "free"),
            "layout": (_("data, tensor, pipeline, ZeRO, micro batch"), "free"),
            "learning": (_("batch, iterations, learning rate and its schedule, seed"), "free"),
            "goal": (goal, "fixed"),
            "score": (_("seconds × the error of your prediction"), "fixed"),
            "budget": (budget, "fixed"),
        }
        columns = ["what", _("decided by")]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    def model(self, layers: int, hidden: int) -> Model:
        """Return a model of the challenge's family."""
        return Model(
            f"l{layers}-h{hidden}", layers, hidden, max(1, hidden // HEAD_SIZE), SEQUENCE,
            vocabulary=VOCABULARY,
        )  # fmt: skip

    def recipe(
        self, name: str, model: Model, *, seconds: float, **more: Any
    ) -> Recipe | Unfinished:  # fmt: skip
        """Return a recipe for the board.

        `seconds` is your prediction for the whole job, from start to end. `more` takes the
        arguments of `gpt.recipe`.
        """
        if missing := gaps({"model": model, "seconds": seconds, **more}):
            return Unfinished(name, missing)
        foreseen = real(seconds)
        if foreseen is None or not 0.1 <= foreseen < 1e9:
            raise RecipeError(
                _(
                    "seconds {seconds!r} is not a time; predict a number such as 25",
                    seconds=own_number(seconds),
                )
            )
        if decided := [flag for flag in FIXED if flag in more]:
            raise RecipeError(
                _("{decided}: the task fixes this for all learners", decided=", ".join(decided))
            )
        if (model.sequence, model.vocabulary) != (SEQUENCE, VOCABULARY):
            raise RecipeError(
                _(
                    "model {name} has other samples or another vocabulary than the task; make the "
                    "model with task.model(2, 64)",
                    name=model.name,
                )
            )
        environment = {PREDICTION: f"{foreseen:.1f} s"}
        habits: dict[str, Any] = {"time_limit_minutes": 3, "lr_decay_style": "cosine"}
        if "lr_warmup_iters" not in more:
            habits["lr_warmup_fraction"] = 0.05
        return gpt.recipe(
            name, model=model, data_path=self.learn, split=SPLIT, save=True,
            environment=environment, **{**habits, **more},
        )  # fmt: skip

    def score(self, run: Any) -> Score | Unfinished:
        """Judge a run's saved weights on freshly drawn samples."""
        return run if isinstance(run, Unfinished) else scored(self, run)

    def enter(self, score: Score | Unfinished, name: str) -> None:
        """Put a score on the board, under a name of your choice."""
        if isinstance(score, Unfinished):
            missing = ", ".join(score.missing)
            print(_("nothing to enter yet; still fill in {missing}", missing=missing))
            return
        self.board().enter(score, name)

    def board(self) -> Board:
        """Return the board of this workspace, or of a class if COURSE_BOARD names its folder."""
        return board.read(self)


@explained("challenge.task")
def task(
    lab: Lab, *, target: float = TARGET_NATS, device_minutes: float = BUDGET_DEVICE_MINUTES
) -> Task:  # fmt: skip
    """Return the task in this workspace.

    A class on faster devices may set a different target, in nats per token, and a different budget.
    Each target and text has its own board.
    """
    goal, budget = real(target), real(device_minutes)
    if goal is None or budget is None or min(goal, budget) <= 0:
        raise RecipeError(
            _(
                "target and device_minutes are numbers greater than 0, such as {target} and "
                "{minutes:g}",
                target=TARGET_NATS,
                minutes=BUDGET_DEVICE_MINUTES,
            )
        )
    return Task(lab, goal, budget, text.prepare(lab))
