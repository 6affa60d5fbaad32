"""Test 16b.1: `train(folder, batch, steps, log)` is stopped by SIGTERM twice and started again.

x, y = batch(step)      the samples of this rank; SIGTERM may come while the step asks for them
log(step, loss)         in each step, before its update

Each start runs the file anew and draws other random numbers first, as a new process would. The
losses of all starts together are compared with an undisturbed run, bit for bit."""

from __future__ import annotations

import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from process.own_program import run_file
from trials.ranks import Ranks

STEPS, STOPS = 9, (2, 6)
INPUTS, SAMPLES = 6, 4
# Time for the other ranks to end as well.
TOGETHER = timedelta(seconds=3)


class EndedBySignal(BaseException):
    """End of a process without a handler for SIGTERM."""


class Start:
    """One start of the program: steps, losses and random states of this rank."""

    def __init__(self, file: Path, folder: Path, ranks: Ranks, stop: int | None = None) -> None:
        self.ranks, self.stop = ranks, stop
        self.losses: dict[int, float] = {}
        self.random: dict[int, Tensor] = {}
        self.was_killed = False
        before = signal.signal(signal.SIGTERM, self._kill)
        torch.manual_seed(ranks.seed + ranks.rank + 1000 * (stop or STEPS))
        try:
            run_file(file, "own")["train"](folder, self._batch, STEPS, self._log)
        except (SystemExit, EndedBySignal):
            pass
        finally:
            signal.signal(signal.SIGTERM, before)

    def _kill(self, *_: object) -> None:
        self.was_killed = True
        raise EndedBySignal

    def _batch(self, step: int) -> tuple[Tensor, Tensor]:
        self.random[int(step)] = torch.get_rng_state()
        if step == self.stop and self.ranks.rank == step % self.ranks.size:
            os.kill(os.getpid(), signal.SIGTERM)
        generator = torch.Generator().manual_seed(1000 * int(step) + self.ranks.rank)
        x = torch.randn(SAMPLES, INPUTS, generator=generator, dtype=torch.float64)
        return x, x.sin().sum(1, keepdim=True)

    def _log(self, step: int, loss: float) -> None:
        self.losses[int(step)] = float(loss)


def test(train: Any, ranks: Ranks) -> None:
    file = Path(str(sys.modules[train.__module__].__file__))
    folder = Path(os.environ.get("COURSE_RUN_DIR") or ".") / "saved" / f"{ranks.size}"
    for name in ("undisturbed", "stopped"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    ranks.begin("undisturbed")
    right = Start(file, folder / "undisturbed", ranks)
    ranks.holds("all steps", [*right.losses] == [*range(STEPS)], steps=len(right.losses))
    first = 0
    for number, stop in enumerate((*STOPS, None), 1):
        ranks.begin(f"start {number}")
        start = Start(file, folder / "stopped", ranks, stop)
        ranks.holds("handled", not start.was_killed, step=stop)
        ended_together(ranks, start)
        steps, last = [*start.losses], STEPS - 1 if stop is None else stop
        begun, ended = (steps or [STEPS])[0], (steps or [-1])[-1]
        ranks.holds("first step", begun == first, begun=begun, wanted=first)
        ranks.holds("last step", ended == last, ended=ended, wanted=last)
        ranks.holds("random state", torch.equal(start.random[begun], right.random[begun]),
                    step=begun)  # fmt: skip
        ranks.agree()  # wrong random numbers on one rank change the losses of all
        others = [step for step, loss in start.losses.items() if loss != right.losses[step]]
        mistake = "" if not others else "at once" if others[0] == begun else "later"
        ranks.holds("losses", not others, mistake=mistake, step=(others or [0])[0], begun=begun)
        first = last + 1


def ended_together(ranks: Ranks, start: Start) -> None:
    """Check that all ranks have ended, in the same step."""
    case = f"ended/{ranks.size}/{ranks.notes.place['case']}"
    ranks.store.set(f"{case}/{ranks.rank}", str(max(start.losses, default=-1)))
    keys = [f"{case}/{rank}" for rank in range(ranks.size)]
    try:
        ranks.store.wait(keys, TOGETHER)
        ended = [int(ranks.store.get(key)) for key in keys]
    except RuntimeError:  # the time is over
        ended = [max(start.losses, default=-1)]
    together = len(ended) == ranks.size and len(set(ended)) == 1
    ranks.holds("together", together, step=max(start.losses, default=-1))
