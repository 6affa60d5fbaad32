"""Work of one rank in the tests: build the program's training, compute gradients, train a
little."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import _dynamo

FLAGS = (
    "--mock-data --vocab-size 250 --make-vocab-size-divisible-by 32 --num-layers 4 "
    "--hidden-size 32 --num-attention-heads 4 --seq-length 16 --micro-batch-size 1 "
    "--global-batch-size 8 --train-iters 20 --lr 1e-2 --lr-decay-style cosine --min-lr 1e-3 "
    "--weight-decay 0.1 --clip-grad 1.0"
)
MODEL = FLAGS.split()


def make(argv: list[str]) -> Any:
    """Make a training from flags, with the program's own steps."""
    from flags.arguments import parse_arguments
    from parallel.layout import make_layout
    from parallel.layout_checks import grid_from
    from pretrain_gpt import build, prepare

    args = parse_arguments(argv)
    grid = grid_from(args, dist.get_world_size())
    prepare(args, grid)
    layout = make_layout(grid, dist.get_rank())
    return build(args, layout, device_of_rank())


def device_of_rank() -> torch.device:
    """Return a processor in the tests, and a GPU in benchmarks/gpu_acceptance.py, which uses
    NCCL."""
    if dist.get_backend() != "nccl":
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())


def whole_gradients(training: Any) -> dict[str, np.ndarray]:
    """Return this rank's gradients after all sums, in the shapes of the parameters."""
    from parallel.fully_sharded import FullySharded

    holder = training.holder
    for one in () if isinstance(holder, FullySharded) else getattr(holder, "both", [holder]):
        if one.sharded:
            dist.all_gather_single(one.gradients, one.reduced, group=one.group.handle)
    found = {}
    for stage in training.stages:
        for name, parameter in stage.named_parameters():
            if isinstance(holder, FullySharded):
                gradient = parameter.grad.full_tensor()
            else:
                gradient = parameter.main_grad
            found[name] = gradient.cpu().numpy().copy()
    return found


# Between the compared steps: an evaluation after the second and the fourth, a checkpoint after the
# third, and a memory trace of the fourth. None of them may change what is computed.
DISTURBED = [
    *["--eval-iters", "1", "--eval-interval", "2"],
    *["--save-interval", "3"],
    *["--record-memory-history", "--profile-step-start", "3", "--profile-step-end", "4"],
]


class Noted:
    """The program's report, which also notes every step's loss and norm and each evaluation."""

    def __init__(self, report: Any, training: Any) -> None:
        self.report, self.training = report, training
        self.losses: list[float] = []
        self.norms: list[float] = []
        self.evaluations: list[float] = []
        self.said: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.report, name)

    def first(self, text: str) -> None:
        self.said.append(text)

    def step(self, progress: Any, loss: Any, result: Any, optimizer: Any) -> None:
        total = loss.double() / self.training.layout.tensor.size
        dist.all_reduce(total)
        args = self.training.args
        self.losses.append(total.item() / (args.global_batch_size * args.seq_length))
        self.norms.append(result.norm.item())

    def evaluation(self, title: str, loss: float, iteration: int) -> None:
        self.evaluations.append(loss)


def run(argv: list[str], steps: int, folder: str) -> dict[str, Any]:
    """Return the gradients of the first step, each with its place in the whole, and some losses."""
    from checkpoints.checkpoint import Progress
    from observing.reporting import Report
    from pretrain_gpt import train

    training = make([*argv, *DISTURBED, "--save", folder, "--exit-interval", str(steps)])
    args = training.args
    args.memory_dir = folder
    tokens = args.global_batch_size * args.seq_length
    training.holder.zero()
    batches = training.loaders["train"].batch(0, training.micro_batches)
    training.pipeline.train(batches, 1 / tokens)
    training.holder.reduce()
    gradients = whole_gradients(training)
    noted = Noted(Report(args, training.layout, training.device), training)
    train(training, noted, Progress())
    return {
        "gradients": gradients,
        "place": {name: place for name, (_, place) in training.checkpoints.slices.items()},
        "losses": noted.losses,
        "norms": noted.norms,
        "evaluations": noted.evaluations,
        "said": noted.said,
        "traced": (Path(folder) / f"rank{dist.get_rank()}.jsonl.gz").is_file(),
    }


def weights_after_each_step(argv: list[str], steps: int) -> dict[str, list[Any]]:
    """Return the rate of each step, and whether the step moved the weights."""
    from checkpoints.checkpoint import Progress
    from pretrain_gpt import train_step

    training, progress = make(argv), Progress()
    found: dict[str, list[Any]] = {"rates": [], "moved": []}
    for _ in range(steps):
        before = training.holder.values.clone()
        train_step(training, progress)
        found["rates"].append(training.optimizer.adam.rate)
        found["moved"].append(not torch.equal(before, training.holder.values))
    return found


def graph_breaks(argv: list[str]) -> int:
    """Number of times that the compiler gives up on the model and begins again."""
    training = make(argv)
    batch = training.loaders["train"].micro_batch(0, 0)
    return _dynamo.explain(training.stages[0].forward)(*batch).graph_break_count


def program(argv: list[str], environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Run the whole program in this rank, and return its exit code and output."""
    import pretrain_gpt

    printed = io.StringIO()
    changed = {name: os.environ.get(name) for name in environment or {}}
    os.environ.update(environment or {})
    unwrapped = pretrain_gpt.build, pretrain_gpt.train_step  # what is planted wraps them
    try:
        with contextlib.redirect_stdout(printed):
            code = pretrain_gpt.main(argv)
    finally:
        pretrain_gpt.build, pretrain_gpt.train_step = unwrapped
        for name, value in changed.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    return code, printed.getvalue()


def resumed(argv: list[str]) -> dict[str, Any]:
    """Run the program from --load to --save. Return unrounded losses and norms, and the padded
    rows."""
    import pretrain_gpt

    notes: list[Noted] = []

    def noting(training: Any, report: Any, progress: Any) -> None:
        notes.append(Noted(report, training))
        train(training, notes[0], progress)

    train, pretrain_gpt.train = pretrain_gpt.train, noting
    try:
        pretrain_gpt.main(argv)
    finally:
        pretrain_gpt.train = train
    rows = notes[0].training.args.padded_vocab_size
    return {"losses": notes[0].losses, "norms": notes[0].norms, "rows": rows}


def refusal(argv: list[str]) -> str:
    """Return the error with which the program refuses to start. It is equal on every rank."""
    import pretrain_gpt
    from process.errors import AskedError

    try:
        with contextlib.redirect_stdout(io.StringIO()):
            pretrain_gpt.main(argv)
    except AskedError as error:
        return str(error)
    return "it ran"


def run_with_a_group_each_way(argv: list[str], steps: int, folder: str) -> dict[str, Any]:
    """Run as with NCCL: messages in each direction have their own group, and neighbours connect
    before the first step."""
    from parallel import layout, routes

    class UnderNccl:
        def get_backend(self) -> str:
            return "nccl"

        def __getattr__(self, name: str) -> Any:
            return getattr(dist, name)

    layout.dist = routes.dist = UnderNccl()
    try:
        return run(argv, steps, folder)
    finally:
        layout.dist = routes.dist = dist
