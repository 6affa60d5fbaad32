"""What is asked, and the recipes that may answer it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from course_lib.lab.errors import RecipeError
from course_lib.lab.job.recipe import Recipe, own_number
from course_lib.lab.job.recipes import gpt
from course_lib.lab.job.unfinished import Unfinished, gaps
from course_lib.lab.lab import Lab
from course_lib.mistakes.arguments import explained, explained_methods
from course_lib.mistakes.names import answers_misspelt
from course_lib.plan.numbers import real
from course_lib.plan.shapes.model import Model
from course_lib.teach.challenge import board, pledge, proofs, text
from course_lib.teach.challenge.board import Board
from course_lib.teach.challenge.score import Score, scored
from course_lib.words import told

if TYPE_CHECKING:
    import pandas as pd

SEQUENCE, VOCABULARY, HEAD_SIZE = 64, 1024, 32
TARGET_NATS, BUDGET_DEVICE_MINUTES = 4.8, 24.0
FIXED = ("data_path", "split", "seq_length", "load", "finetune", "mock_data", "vocab_size",
         "vocab_file", "merge_file", "tokenizer_model", "save", "environment")  # fmt: skip
"""What the task decides, not the learner."""


@answers_misspelt
@explained_methods("task", "recipe", "score", "enter", takes_gaps=True)
@explained_methods("task", "model", "verify")
@dataclass(frozen=True)
class Task:
    """A text to learn, a loss to reach on another part of it, and what may be spent on it."""

    lab: Lab = field(repr=False, compare=False)
    target: float
    device_minutes: float
    digest: str

    @property
    def learn(self) -> str:
        """The text to learn from, as `--data-path` wants it."""
        return str(text.folder(self.lab.workspace) / text.LEARN)

    @property
    def judge(self) -> str:
        return str(text.folder(self.lab.workspace) / text.JUDGE)

    def rules(self) -> pd.DataFrame:
        """What is given, and what is the learner's to choose."""
        import pandas as pd

        rows = {  # short: a notebook cuts what is longer than 50 letters
            "text": ("Python's own library, 1,024 kinds of tokens", "fixed"),
            "samples": (f"{SEQUENCE} tokens each", "fixed"),
            "model": (f"a GPT of any depth and width (heads of {HEAD_SIZE})", "free"),
            "devices": ("all, or some of the cluster's", "free"),
            "layout": ("data, tensor, pipeline, ZeRO, micro batch", "free"),
            "learning": ("batch, iterations, rate and its course, seed", "free"),
            "goal": (f"held-out loss of {self.target:g} nats per token, or less", "fixed"),
            "score": ("seconds × how wrongly you foresaw them", "fixed"),
            "budget": (f"{self.device_minutes:g} device-minutes for all you try", "fixed"),
        }
        return pd.DataFrame(
            [(told(what), told(who)) for what, who in rows.values()],
            index=list(rows),
            columns=["what", told("who decides")],
        )

    def model(self, layers: int, hidden: int) -> Model:
        """A member of the family."""
        return Model(
            f"l{layers}-h{hidden}", layers, hidden, max(1, hidden // HEAD_SIZE), SEQUENCE,
            vocabulary=VOCABULARY,
        )  # fmt: skip

    def recipe(
        self, name: str, model: Model, *, seconds: float, **more: Any
    ) -> Recipe | Unfinished:  # fmt: skip
        """A run for the board. `seconds` is the time that you foresee for the whole job, from its
        start to its end. `more` is what gpt.recipe takes."""
        if missing := gaps({"model": model, "seconds": seconds, **more}):
            return Unfinished(name, missing)
        foreseen = real(seconds)
        if foreseen is None or not 0.1 <= foreseen < 1e9:
            raise RecipeError(f"seconds {own_number(seconds)!r} is no time; foresee one such as 25")
        if decided := [flag for flag in FIXED if flag in more]:
            raise RecipeError(f"{', '.join(decided)}: the task decides that, for all alike")
        if (model.sequence, model.vocabulary) != (SEQUENCE, VOCABULARY):
            raise RecipeError(
                f"model {model.name} has samples of {model.sequence} and {model.vocabulary} kinds "
                f"of tokens, the task {SEQUENCE} and {VOCABULARY}: make one by task.model(2, 64)"
            )
        environment = pledge.made(self.lab.workspace, foreseen)
        habits: dict[str, Any] = {"time_limit_minutes": 3, "lr_decay_style": "cosine"}
        if "lr_warmup_iters" not in more:
            habits["lr_warmup_fraction"] = 0.05
        return gpt.recipe(
            name, model=model, data_path=self.learn, split=proofs.SPLIT, save=True,
            environment=environment, **{**habits, **more},
        )  # fmt: skip

    def score(self, run: Any) -> Score | Unfinished:
        """Judged by samples drawn at this moment, from the weights that the run has saved."""
        return run if isinstance(run, Unfinished) else scored(self, run)

    def enter(self, score: Score | Unfinished, name: str) -> None:
        """Puts a score on the board, under a name of your choice."""
        if isinstance(score, Unfinished):
            missing = ", ".join(score.missing)
            print(told(f"nothing to enter yet: {missing} still to be filled in"))
            return
        board.enter(self.board(), score, name)

    def board(self) -> Board:
        """The best of all tries; those of a class where COURSE_BOARD names their common folder."""
        return board.read(board.place(self.lab.workspace), self)

    def verify(self, name: str) -> Score:
        """Scores the run of an entry of yours once more, with samples that are drawn anew, and
        says where the entry says other things."""
        entry, run = board.run_of(self.board(), self.lab, name)
        found = scored(self, run)
        return replace(found, noticed=(*found.noticed, *board.not_so(entry, found)))


@explained("challenge.task")
def task(
    lab: Lab, *, target: float = TARGET_NATS, device_minutes: float = BUDGET_DEVICE_MINUTES
) -> Task:  # fmt: skip
    """The task in this workspace. A class on faster devices may be set another target, in nats
    per token, and another budget; boards tell tasks apart."""
    goal, budget = real(target), real(device_minutes)
    if goal is None or goal <= 0:
        raise RecipeError(f"target {target!r} is no loss; use one such as {TARGET_NATS}")
    if budget is None or budget <= 0:
        raise RecipeError(f"device_minutes {device_minutes!r} is no budget; use one such as 24")
    return Task(lab, goal, budget, text.prepare(lab))
