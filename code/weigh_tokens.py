"""Compare three means of the loss over sequences of different lengths.

    torchrun --nproc-per-node 2 code/weigh_tokens.py --micro-batches 4 --mean-over micro-batch

Every micro-batch is one sequence, padded to the longest sequence. Padding has no target, so it has
no loss. The losses of the other tokens are summed, and divided

    micro-batch  by the tokens of the micro-batch and by the micro-batches: a mean of means
    rank         by the tokens of all micro-batches of the rank: right on one device
    batch        by the tokens of the global batch, over all ranks: as for one large batch

Short sequences count up by one, long ones by three. The model sees one token at a time, so it has
to divide its probability between the two: `belief in the short` is the share of "one more". The `lm
loss` in the log is the mean over all tokens in every mode. `gradient off by` compares the averaged
gradient with the gradient of a plain model for the whole batch."""

import argparse
import time

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from accumulate_ddp import tell_iteration, tell_world
from flags.parser import DISTRIBUTED, FlagParser
from flags.ranges import COUNT, SIZE, OneOf, Real, Whole
from process.device import start
from process.exit import run_and_exit
from process.pace import keep_pace

NO_TARGET = -100  # PyTorch's own number for it
SHORT_STEP, LONG_STEP = 1, 3


def language_model(vocabulary: int, width: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary))


def lengths_of(args: argparse.Namespace, rank: int) -> list[int]:
    """Return one long sequence among short ones on even ranks, and the reverse on odd ranks."""
    rare, common = (args.long, args.short) if rank % 2 == 0 else (args.short, args.long)
    return [rare] + [common] * (args.micro_batches - 1)


def sequences(args: argparse.Namespace, iteration: int, rank: int) -> tuple[Tensor, Tensor]:
    """Return tokens and targets of a rank: [micro-batches, longest]."""
    random = torch.Generator().manual_seed(1000 * iteration + rank)
    lengths = torch.tensor(lengths_of(args, rank))
    place = torch.arange(max(args.short, args.long))
    step = torch.where(lengths == args.short, SHORT_STEP, LONG_STEP)[:, None]
    first = torch.randint(args.vocab_size, (len(lengths), 1), generator=random)
    tokens = (first + step * place) % args.vocab_size
    targets = (tokens + step) % args.vocab_size
    return tokens, targets.masked_fill(place >= lengths[:, None], NO_TARGET)


def summed_loss(model: nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
    scores = model(tokens).flatten(0, -2)
    return nn.functional.cross_entropy(
        scores, targets.flatten(), ignore_index=NO_TARGET, reduction="sum"
    )


def divisors(targets: Tensor, mean_over: str) -> Tensor:
    """Return the divisor of each micro-batch's summed loss."""
    tokens = (targets != NO_TARGET).sum(dim=1).float()
    if mean_over == "micro-batch":
        return tokens * len(tokens)
    total = tokens.sum()
    if mean_over == "batch":
        dist.all_reduce(total)
        total /= dist.get_world_size()  # by which DDP divides again
    return total.expand(len(tokens))


def gradient_at_once(model: nn.Module, tokens: Tensor, targets: Tensor) -> tuple[float, Tensor]:
    """Return loss and gradient of a model that sees the global batch in one piece."""
    loss = summed_loss(model, tokens, targets) / (targets != NO_TARGET).sum()
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    return loss.item(), torch.cat([g.flatten() for g in gradients])


@torch.no_grad()
def belief_in_the_short(model: nn.Module, tokens: Tensor) -> float:
    """Return the mean probability in percent of "one more" after a single token."""
    believed = model(tokens).softmax(dim=1)
    return 100 * float(believed[tokens, (tokens + SHORT_STEP) % len(tokens)].mean())


def step(model: DistributedDataParallel, tokens: Tensor, targets: Tensor, mean_over: str) -> Tensor:
    """Run forward and backward of each micro-batch; return the averaged gradient."""
    parts = zip(tokens, targets, divisors(targets, mean_over), strict=True)
    *others, last = parts
    with model.no_sync():
        for x, y, divisor in others:
            (summed_loss(model, x, y) / divisor).backward()
    x, y, divisor = last
    (summed_loss(model, x, y) / divisor).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def train(args: argparse.Namespace) -> None:
    device, size = start(args), dist.get_world_size()
    keep_pace()
    plain = language_model(args.vocab_size, args.width).to(device)
    model = DistributedDataParallel(plain)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    tell_world(args, plain)
    batch = size * args.micro_batches
    every_token = torch.arange(args.vocab_size, device=device)
    for iteration in range(1, args.train_iters + 1):
        of_ranks = [sequences(args, iteration, rank) for rank in range(size)]
        tokens, targets = (part.to(device) for part in of_ranks[dist.get_rank()])
        whole = [torch.cat(parts).to(device) for parts in zip(*of_ranks, strict=True)]
        loss, right = gradient_at_once(plain, whole[0], whole[1])
        began = time.perf_counter()
        optimizer.zero_grad()
        gradient = step(model, tokens, targets, args.mean_over)
        optimizer.step()
        elapsed_ms = 1e3 * (time.perf_counter() - began)
        off = float((gradient - right).norm() / right.norm())
        told = {
            "iteration": f"{iteration:8d}/{args.train_iters:8d}",
            "consumed samples:": f"{iteration * batch:12d}",
            "elapsed time per iteration (ms):": f"{elapsed_ms:.1f}",
            "global batch size:": f"{batch:5d}",
            "lm loss:": f"{loss:.6E}",
            "gradient off by:": f"{off:.3E}",
            "belief in the short (%):": f"{belief_in_the_short(plain, every_token):.1f}",
        }
        tell_iteration(told)


FLAGS = [
    ("--mean-over", OneOf(("micro-batch", "rank", "batch")), "batch", "range of the mean"),
    ("--micro-batches", Whole(2, 1000), 4, "sequences per rank and step"),
    ("--short", COUNT, 8, "tokens in a short sequence"),
    ("--long", COUNT, 64, "tokens in a long sequence"),
    ("--vocab-size", SIZE, 32, "number of different tokens"),
    ("--width", SIZE, 32, "width of the embedding"),
    ("--lr", Real(above=0, most=1000), 0.05, "learning rate of Adam"),
    ("--train-iters", COUNT, 40, "optimizer steps"),
    *DISTRIBUTED,
]


def main(argv: list[str] | None = None) -> int:
    train(FlagParser(__doc__.splitlines()[0], {"flags": FLAGS}).parse_all(argv))
    return 0


if __name__ == "__main__":
    run_and_exit(main)
