"""Test 05.2: `train(task)` without the bottleneck that was drawn for this learner.

The program is the same for all learners and has four naive places. The task decides which of them
costs time: reads that take long, gradients of many rows, many small parameters, or samples of
different lengths. On four ranks the profiler records three steps. Then the test counts reads ahead,
values asked for, messages, and tokens of each rank. It measures no time."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.profiler import record_function

from observing.profiling import write_trace
from trials.ranks import Ranks

PLACES = ("reading", "asking", "messages", "dealing")
STEPS, SAMPLES, WARM_UP = 5, 12, 2
READ_S, PATIENCE_S = 0.02, 3.0
BREAKS_AT = 2  # the step in which a gradient is not finite
FULL = 4  # ranks: on fewer, no place costs time
# Counts that pass: messages of a step, and the most tokens of a rank over the mean.
MOST_MESSAGES, MOST_ABOVE_MEAN = 3, 1.3


class Blocks(nn.Module):
    def __init__(self, ranks: Ranks, width: int, hidden: int, blocks: int) -> None:
        super().__init__()
        self.up, self.down = (
            nn.ModuleList(nn.Linear(*shape, dtype=torch.float64) for _ in range(blocks))
            for shape in ((width, hidden), (hidden, width))
        )
        for one in self.parameters():
            one.data = ranks.draw(tuple(one.shape))[0] * 0.3 / one.shape[-1] ** 0.5

    def forward(self, x: Tensor) -> Tensor:
        for up, down in zip(self.up, self.down, strict=True):
            x = x + down(torch.tanh(up(x)))
        return x


class Task:
    """A small training job for the learner's program: `lengths`, `read`, `model`, `loss` and
    `optimizer` are for the program."""

    def __init__(self, ranks: Ranks, place: str, breaks: int | None = None) -> None:
        width, hidden, blocks, tokens, read_s, grow = 4, 4, 1, 6, 0.0, 0
        if ranks.size < FULL or place == "reading":
            read_s = READ_S if ranks.size == FULL else 0.0
        elif place == "asking":
            hidden = 2500
        elif place == "messages":
            blocks = 16
        elif place == "dealing":
            width, hidden, tokens, grow = 32, 128, 600, 1
        self.lengths = [
            [tokens * (1 + grow * number) for number in range(SAMPLES)] for _ in range(STEPS)
        ]
        self.width, self.read_s = width, read_s
        rows = STEPS * SAMPLES + max(self.lengths[0])
        (self.tokens_of_file,) = ranks.draw((rows, width))
        self.model = Blocks(ranks, width, hidden, blocks)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        if breaks is not None:
            [*self.model.parameters()][breaks].register_hook(self.broken)
        self.main, self.watches = threading.get_ident(), False
        self.reads: list[tuple[int, int]] = []  # step and sample
        self.main_reads = self.losses = self.tokens = self.overlaps = 0
        self.is_early, self.changed = False, threading.Condition()

    def sample(self, step: int, number: int) -> Tensor:
        begin = step * SAMPLES + number
        return self.tokens_of_file[begin : begin + self.lengths[step][number]].clone()

    def read(self, step: int, number: int) -> Tensor:
        is_main = threading.get_ident() == self.main
        with self.changed:
            self.reads.append((step, number))
            self.main_reads += is_main
            self.changed.notify_all()
            if self.watches and step == STEPS - 1 and not self.losses and not self.is_early:
                # A thread that reads ahead waits here for the first loss.
                begun = not is_main and self.changed.wait_for(lambda: self.losses, PATIENCE_S)
                self.is_early = not begun
        with record_function("data"):
            time.sleep(self.read_s)
            return self.sample(step, number)

    def loss(self, batch: Tensor) -> Tensor:
        """Return the sum of the losses of a batch of this rank."""
        step = self.losses
        with self.changed:
            self.losses += 1
            self.changed.notify_all()
        self.tokens += len(batch)
        if self.watches and step < STEPS - 1:
            self.overlaps += self.next_is_read(step + 1)
        with record_function("forward 0"):
            return self.loss_of(batch)

    def broken(self, gradient: Tensor) -> Tensor:
        """Make the last number of a gradient infinite, in one step."""
        gradient = gradient.clone()
        gradient.view(-1)[-1] += torch.inf if self.losses == BREAKS_AT + 1 else 0
        return gradient

    def loss_of(self, batch: Tensor) -> Tensor:
        return (self.model(batch) - batch.sin()).square().sum() / self.width

    def next_is_read(self, step: int) -> bool:
        """Wait until the next step is being read. Without another thread that never happens."""
        with self.changed:
            found = self.changed.wait_for(
                lambda: any(one == step for one, _ in self.reads),
                PATIENCE_S if self.main_reads < len(self.reads) else 0,
            )
            self.watches = found or step == 1  # the program may read the first step itself
            return found


def test(train: Any, ranks: Ranks) -> None:
    place = place_of(os.environ.get("COURSE_RUN_DIR") or ".")
    seed = ranks.seed
    if ranks.size == FULL:
        ranks.begin("recorded")
        ranks.notes.write("drawn", place=place)
        record(train, Task(ranks, place), ranks)
    ranks.begin("counted")
    ranks.seed = seed
    task = Task(ranks, place)
    task.watches = ranks.size == FULL
    with ranks.phase("steps"):
        train(task)
    ranks.all_waited_for()
    asked, operators = (
        sum(ranks.calls.operators[name] for name in names) / STEPS
        for names in (["local_scalar_dense"], list(ranks.calls.operators))
    )
    ranks.holds("all steps", task.losses == STEPS, losses=task.losses, steps=STEPS)
    ranks.agree()
    each_once(ranks, task)
    same_weights(ranks, task, place, seed)
    counted = {
        "reading": reading(task),
        "asking": asking(task, asked, operators),
        "messages": messages(ranks, task),
        "dealing": dealing(ranks, task),
    }
    ranks.begin("a gradient that is not finite")
    for number, (name, _) in enumerate(Task(ranks, "").model.named_parameters()):
        ranks.holds("the check", stops(train, Task(ranks, "", number), ranks), part=name)
    if ranks.size < FULL:
        return
    ranks.begin("the bottleneck")
    mistake, measured = counted[place]
    cured = " and ".join(name for name, (how, _) in counted.items() if name != place and not how)
    if mistake == "naive":
        mistake = "elsewhere" if cured else "nothing"
    ranks.holds("the bottleneck", not mistake, mistake=mistake, cured=cured, **measured)
    ranks.holds("the others", not cured, cured=cured)


def place_of(folder: str) -> str:
    """Draw the place that costs time. It is the same for all runs of a workspace."""
    workspace = Path(folder).resolve().parents[1]
    return PLACES[hashlib.sha256(str(workspace).encode()).digest()[0] % len(PLACES)]


def record(train: Any, task: Task, ranks: Ranks) -> None:
    """Train under the profiler, which leaves a trace of the steps after the warm-up."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it prints every start and stop
    folder = Path(os.environ.get("COURSE_RUN_DIR") or ".") / "profile"
    recording = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(wait=0, warmup=WARM_UP, active=STEPS - WARM_UP, repeat=1),
        on_trace_ready=lambda ended: write_trace(ended, folder, ranks.rank),
    )
    task.optimizer.register_step_post_hook(lambda *_: recording.step())
    ranks.agree()
    with recording:
        train(task)


def each_once(ranks: Ranks, task: Task) -> None:
    """Assert that the ranks together have read each sample once."""
    found: list[Any] = [None] * ranks.size
    dist.all_gather_object(found, task.reads)
    reads = [one for of_rank in found for one in of_rank]
    wanted = {(step, number) for step in range(STEPS) for number in range(SAMPLES)}
    missing, again = len(wanted - set(reads)), len(reads) - len(set(reads))
    ranks.holds("each once", not missing and not again, missing=missing, again=again)


def same_weights(ranks: Ranks, task: Task, place: str, seed: int) -> None:
    """Compare with serial training on all samples."""
    ranks.seed = seed
    serial = Task(ranks, place)
    for step in range(STEPS):
        serial.optimizer.zero_grad()
        batch = torch.cat([serial.sample(step, number) for number in range(SAMPLES)])
        (serial.loss_of(batch) / sum(serial.lengths[step])).backward()
        serial.optimizer.step()
    found, right = (
        {name: one.detach() for name, one in each.model.named_parameters()}
        for each in (task, serial)
    )
    ranks.same("the weights", found, right)


# The mistake, "" if the place is cured and "naive" if nothing has changed, and measurements.
Found = tuple[str, dict[str, Any]]


def reading(task: Task) -> Found:
    if task.is_early:
        return "all first", {}
    if task.main_reads == len(task.reads):
        return "naive", {}
    enough = task.overlaps >= STEPS - 2
    return "" if enough else "reading", {"overlaps": task.overlaps, "steps": STEPS - 1}


def asking(task: Task, asked: float, operators: float) -> Found:
    parameters = list(task.model.parameters())
    rows = sum(len(one) for one in parameters)
    by_row = operators > rows > 40 * len(parameters)
    mistake = "asking" if by_row or asked > len(parameters) + 1 else ""
    return "naive" if asked >= rows else mistake, {"asked": asked, "operators": operators}


def messages(ranks: Ranks, task: Task) -> Found:
    sent, parameters = len(ranks.calls.made) / STEPS, len(list(task.model.parameters()))
    mistake = "naive" if sent >= parameters else "messages"
    return "" if sent <= MOST_MESSAGES else mistake, {"sent": sent, "parameters": parameters}


def dealing(ranks: Ranks, task: Task) -> Found:
    tokens = torch.zeros(ranks.size)
    tokens[ranks.rank] = task.tokens / STEPS
    dist.all_reduce(tokens)
    most, mean = float(tokens.max()), float(tokens.mean())
    block = torch.arange(SAMPLES).chunk(ranks.size)[ranks.rank].tolist()
    is_naive = {number for _, number in task.reads} == {*block}
    mistake = "" if most <= MOST_ABOVE_MEAN * mean else "dealing"
    return "naive" if is_naive else mistake, {"most": most, "mean": mean}


def stops(train: Any, task: Task, ranks: Ranks) -> bool:
    """Tell whether the program ends with an error in the step with the broken gradient."""
    with contextlib.suppress(FloatingPointError), ranks.phase("steps"):
        train(task)
        return False
    ranks.calls.is_on = False
    return task.losses == BREAKS_AT + 1
