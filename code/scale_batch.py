"""Train one small model with any batch size, and measure the noise of its gradients.

    python code/scale_batch.py --text my.txt --batch-size 256 --lr-scaling sqrt
    torchrun --nproc-per-node 4 code/scale_batch.py --text my.txt --batch-size 256

The model is train_letters.py's, which predicts the next letter. Every run trains on --samples
samples, so a four times larger batch makes a quarter of the steps. After the warm-up the learning
rate decays linearly to zero, as in real training runs. It can also stay constant
(--lr-decay-style), so that any two moments of two runs can be compared. With --seeds, one run
trains several models, each with its own weights and samples, and one matmul computes all of them.

A gradient is a mean over random samples: the true gradient plus noise. With --micro-batch-size the
program prints squared lengths of gradients: of the micro-batches (`small`), and of their mean over
the batch (`large`). Noise makes the gradients of micro-batches longer; the difference shows how
large the noise is."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn

from accumulate_ddp import difference_of_copies, tell_iteration, tell_world
from flags.parser import DISTRIBUTED, FlagParser
from flags.ranges import COUNT, NUMBER, ON, SIZE, OneOf, Real, Text, Whole
from process.device import start
from process.environment import environment_of_rank
from process.errors import ArgumentsError, DivergedError
from process.exit import run_and_exit
from train_letters import BEFORE, LETTERS, model_of, samples, text_of
from training.learning_rate import BATCH_SCALING, scaled_rate

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "sgd": torch.optim.SGD,
}
# Number of samples from the text's last tenth, which is not used for training.
JUDGED_BY = 2048


def seeds_of(args: argparse.Namespace) -> range:
    return range(args.seed, args.seed + args.seeds)


def rate_of(args: argparse.Namespace, seen: int) -> float:
    """Return the rate of the step after `seen` samples. The warm-up counts samples too, so that it
    is the same part of the training for every batch size."""
    highest = scaled_rate(args.lr, args.lr_scaling, args.batch_size, args.lr_batch_size)
    if seen + args.batch_size < args.warmup_samples:
        return highest * (seen + args.batch_size) / args.warmup_samples
    if args.lr_decay_style == "constant":
        return highest
    return highest * (args.samples - seen) / max(args.samples - args.warmup_samples, 1)


def parts_of(text: Tensor, args: argparse.Namespace) -> tuple[Tensor, Tensor]:
    """Split the text into a training part and a validation part."""
    cut = len(text) * 9 // 10
    learned = text[: args.train_letters or cut]
    if args.train_letters > cut or min(len(learned), len(text) - cut) <= BEFORE:
        raise ArgumentsError(
            f"--train-letters {args.train_letters}: this text has {len(text)} letters, and the "
            f"last tenth is not learned; give {BEFORE + 1} to {cut}"
        )
    return learned, text[cut:]


class Stacked(nn.Module):
    """Models of train_letters.py, one for each seed, with their parameters stacked."""

    def __init__(self, models: list[nn.Module]) -> None:
        super().__init__()
        each = zip(*(model.parameters() for model in models), strict=True)
        self.stacked = nn.ParameterList(torch.stack([p.detach() for p in one]) for one in each)

    def forward(self, texts: Tensor) -> Tensor:
        """Return scores [seeds, samples, letters] for texts [seeds, samples, letters before]."""
        embedding, *layers = self.stacked
        first_rows = LETTERS * torch.arange(len(texts), device=texts.device)
        rows = texts + first_rows[:, None, None]
        x = nn.functional.embedding(rows, embedding.flatten(0, 1)).flatten(2)
        for number, (weight, bias) in enumerate(zip(layers[::2], layers[1::2], strict=True)):
            x = torch.baddbmm(bias[:, None], x.relu() if number else x, weight.mT)
        return x


def losses_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Return the mean loss of each seed over its samples."""
    each = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="none")
    return each.view(y.shape).mean(1)


def gradient_of(model: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean loss, and one vector with each seed's gradient of its own loss."""
    losses = losses_of(model, x, y)
    pieces = torch.autograd.grad(losses.sum(), list(model.parameters()))
    return losses.detach().mean(), torch.cat([piece.flatten() for piece in pieces])


def step(model: nn.Module, x: Tensor, y: Tensor, micro: int) -> Tensor:
    """Set each parameter's gradient to the mean over all micro-batches of all ranks. Return the
    loss, the squared length of a micro-batch's gradient, and of that mean gradient, each as the
    mean over all seeds."""
    parts = zip(x.split(micro, 1), y.split(micro, 1), strict=True)
    found = [gradient_of(model, *part) for part in parts]
    loss = torch.stack([loss for loss, _ in found]).mean()
    # The mean of the squared lengths, not the squared length of the mean, which comes next.
    small = torch.stack([gradient.square().sum() for _, gradient in found]).mean()
    gradient = torch.stack([gradient for _, gradient in found]).mean(0)
    told = torch.stack([loss, small])
    if dist.get_world_size() > 1:  # as DDP does during backward
        for tensor in (gradient, told):
            dist.all_reduce(tensor)
            tensor.div_(dist.get_world_size())
    first = 0
    for parameter in model.parameters():
        parameter.grad = gradient[first : first + parameter.numel()].view_as(parameter)
        first += parameter.numel()
    lengths = torch.stack([told[1], gradient.square().sum()]) / len(x)
    return torch.cat([told[:1], lengths])


def batches(text: Tensor, args: argparse.Namespace) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield this rank's share of each batch of all seeds. All ranks draw the same batches, so that
    the training does not depend on their number."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds_of(args)]
    share = args.batch_size // dist.get_world_size()
    mine = slice(dist.get_rank() * share, (dist.get_rank() + 1) * share)
    for _ in range(args.samples // args.batch_size):
        drawn = [samples(text, args.batch_size, generator) for generator in generators]
        x, y = (torch.stack(each) for each in zip(*drawn, strict=True))
        yield x[:, mine], y[:, mine]


def first_model(args: argparse.Namespace, device: torch.device) -> nn.Module:
    """Draw initial weights on each rank. Then all ranks take rank 0's weights, as with DDP."""
    models = []
    for seed in seeds_of(args):
        torch.manual_seed(seed + dist.get_rank())
        models.append(model_of(args.width))
    model = Stacked(models).to(device)
    if not args.no_broadcast:
        for parameter in model.parameters():
            dist.broadcast(parameter.data, src=0)
    return model


def train(args: argparse.Namespace) -> None:
    # This program measures no times, so a rank without GPU need not keep a device's pace.
    device, size = start(args), dist.get_world_size()
    learned, judged = (part.to(device) for part in parts_of(text_of(args.text), args))
    model = first_model(args, device)
    optimizer = OPTIMIZERS[args.optimizer](model.parameters(), lr=args.lr, fused=True)
    tell_world(argparse.Namespace(micro_batches=args.batch_size // args.micro // size), model)
    drawn = samples(judged, JUDGED_BY, torch.Generator().manual_seed(0))
    validation = [one.expand(args.seeds, *one.shape) for one in drawn]
    steps = args.samples // args.batch_size
    sums, since, began = torch.zeros(3, device=device), 0, time.perf_counter()
    for number, (x, y) in enumerate(batches(learned, args), start=1):
        for group in optimizer.param_groups:
            group["lr"] = rate_of(args, (number - 1) * args.batch_size)
        sums += step(model, x, y, args.micro)
        optimizer.step()
        since += 1
        if number * args.lines // steps == (number - 1) * args.lines // steps:
            continue
        elapsed_ms = 1e3 * (time.perf_counter() - began) / since
        with torch.no_grad():
            losses = losses_of(model, *validation).tolist()
            apart = difference_of_copies(nn.utils.parameters_to_vector(model.parameters()))
        report(args, number, elapsed_ms, sums / since, losses, apart)
        if not math.isfinite(loss := sum(losses) / len(losses)):
            raise DivergedError(
                f"iteration {number}: the loss is {loss}. Lower --lr, or warm up longer "
                "(--warmup-samples)"
            )
        sums, since, began = torch.zeros(3, device=device), 0, time.perf_counter()


def report(
    args: argparse.Namespace, number: int, elapsed_ms: float, means: Tensor, losses: list[float],
    apart: float,
) -> None:  # fmt: skip
    seen, (learned, small, large) = number * args.batch_size, means.tolist()
    told = {
        "iteration": f"{number:8d}/{args.samples // args.batch_size:8d}",
        "consumed samples:": f"{seen:12d}",
        "elapsed time per iteration (ms):": f"{elapsed_ms:.2f}",
        "learning rate:": f"{rate_of(args, seen - args.batch_size):.6E}",
        "global batch size:": f"{args.batch_size:5d}",
        "lm loss:": f"{learned:.6E}",
        "validation loss:": f"{sum(losses) / len(losses):.6E}",
        "small gradient squared:": f"{small:.6E}",
        "large gradient squared:": f"{large:.6E}",
        "copies differ by:": f"{apart:.3E}",
    }
    if args.seeds > 1:
        for seed, loss in zip(seeds_of(args), losses, strict=True):
            told[f"validation loss of seed {seed}:"] = f"{loss:.6E}"
    tell_iteration(told)


FLAGS = [
    ("--text", Text(), None, "file with the training text (default: download one)"),
    ("--train-letters", NUMBER, 0, "use only its first letters (0: all but the last tenth)"),
    ("--batch-size", SIZE, 16, "samples per step, over all ranks"),
    ("--micro-batch-size", NUMBER, 0, "samples per backward pass (0: all of a rank)"),
    ("--samples", COUNT, 65536, "samples in the whole training"),
    ("--optimizer", OneOf(tuple(OPTIMIZERS)), "adam", "sgd: plain, without momentum"),
    ("--lr", Real(above=0, most=100), 1e-3, "learning rate at --lr-batch-size"),
    ("--lr-batch-size", SIZE, 16, "batch size to which --lr belongs"),
    ("--lr-scaling", OneOf(tuple(BATCH_SCALING)), "none", "growth with the batch size"),
    ("--lr-decay-style", OneOf(("linear", "constant")), "linear", "rate after the warm-up"),
    ("--warmup-samples", NUMBER, 0, "samples before the full learning rate"),
    ("--no-broadcast", ON, False, "start with different weights on each rank"),
    ("--width", SIZE, 64, "width of the layers"),
    ("--seed", Whole(0, 2**31), 1, "seed of weights and samples"),
    ("--seeds", COUNT, 1, "models to train at once, with seeds from --seed on"),
    ("--lines", COUNT, 32, "number of evaluations"),
    *DISTRIBUTED,
]


def check_sizes(args: argparse.Namespace, size: int) -> None:
    """Check the sizes: a mean of gradients is correct if each is a mean over equally many
    samples."""
    args.micro = args.micro_batch_size or math.ceil(args.batch_size / size)
    if args.batch_size % (size * args.micro):
        raise ArgumentsError(
            f"--batch-size {args.batch_size} is not a multiple of {size} ranks × micro-batch "
            f"{args.micro}"
        )
    if args.samples < args.batch_size:
        raise ArgumentsError(
            f"--samples {args.samples} is less than one --batch-size {args.batch_size}"
        )


def main(argv: list[str] | None = None) -> int:
    args = FlagParser(__doc__.splitlines()[0], {"flags": FLAGS}).parse_all(argv)
    _, size, _ = environment_of_rank()
    check_sizes(args, size)
    train(args)
    return 0


if __name__ == "__main__":
    run_and_exit(main)
