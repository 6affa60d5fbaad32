"""Experts of one layer on four ranks, with both all-to-alls, beside a plain loop over experts.

    python benchmarks/experts.py --rounds 9

The loop has the same work: on each rank as many experts, and for each of them as many rows as the
exchange brings there, but nothing is sent. Both sides take turns, round after round, forward and
backward. Printed are the medians of the slowest rank, by the clock, and of all ranks together, by
processor time; and the loop's time divided by ours. Goal: at least 0.9, by the clock if each rank
has a core, otherwise by processor time: on a busy machine, ranks wait long for each other."""

from __future__ import annotations

import argparse
import statistics
from types import SimpleNamespace
from typing import Any

import code_on_path  # noqa: F401
import torch
import torch.distributed as dist
from timed_steps.ours_and_plain import Times, timed
from torch import Tensor, nn
from worlds import Worlds

GOAL, RANKS = 0.9, 4
KEPT: dict[str, Any] = {}  # what this rank has already built


class Loop(nn.Module):
    """Experts of this rank, one after the other."""

    def __init__(self, experts: int, hidden: int, width: int) -> None:
        super().__init__()
        self.gate, self.up = (
            nn.Parameter(torch.randn(experts, width, hidden) * 0.02) for _ in range(2)
        )
        self.down = nn.Parameter(torch.randn(experts, hidden, width) * 0.02)

    def forward(self, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        for number in range(self.up.shape[0]):
            rows, place = torch.where(chosen == number)
            mine = x[rows]
            inner = nn.functional.silu(mine @ self.gate[number].t()) * (mine @ self.up[number].t())
            out.index_add_(0, rows, inner @ self.down[number].t() * weights[rows, place, None])
        return out


def seconds(asked: argparse.Namespace) -> dict[str, Times]:
    """Return seconds per forward and backward on this rank, by side."""
    if not KEPT:
        build(asked)
    found = {}
    for name, step in KEPT.items():
        dist.barrier()
        found[name] = timed(step, asked.steps)
    return found


def build(asked: argparse.Namespace) -> None:
    """Build both sides, with the same rows for every expert."""
    from parallel.experts import Experts
    from parallel.layout import ExpertGroups, Group
    from parallel.products import WeightWork
    from process.device import keep_memory

    keep_memory()
    rank, alone = dist.get_rank(), Group([0], 0)
    torch.manual_seed(rank)
    everyone = Group(list(range(RANKS)), rank, dist.group.WORLD)
    owners = [[number] for number in range(RANKS)]
    groups = ExpertGroups(alone, everyone, everyone, alone, alone, everyone, owners)
    flags = SimpleNamespace(num_experts=asked.experts, moe_ffn_hidden_size=asked.width,
                            hidden_size=asked.hidden, swiglu=True)  # fmt: skip
    ours = Experts(flags, groups, WeightWork())  # type: ignore[arg-type]
    for parameter in ours.parameters():
        nn.init.normal_(parameter, 0, 0.02)
        parameter.main_grad = torch.zeros_like(parameter)  # type: ignore[attr-defined]
    chosen = torch.rand(asked.rows, asked.experts).topk(asked.topk, 1).indices
    weights = torch.rand(asked.rows, asked.topk)
    everywhere = [torch.empty_like(chosen) for _ in range(RANKS)]
    dist.all_gather(everywhere, chosen)
    local = asked.experts // RANKS
    arriving = torch.cat(everywhere).flatten()
    arriving = arriving[arriving // local == rank] % local
    loop = Loop(local, asked.hidden, asked.width)
    KEPT["ours"] = stepping(ours, asked.rows, asked.hidden, weights, chosen)
    alike = arriving.unsqueeze(1)  # one choice for each row that arrives
    KEPT["loop"] = stepping(loop, len(alike), asked.hidden, torch.rand(len(alike), 1), alike)


def stepping(model: nn.Module, rows: int, hidden: int, weights: Tensor, chosen: Tensor) -> Any:
    x = torch.randn(rows, hidden, requires_grad=True)
    given = torch.randn(rows, hidden)
    return lambda: model(x, weights, chosen).backward(given)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("rounds", 9), ("steps", 4), ("experts", 8), ("topk", 2),
                          ("hidden", 512), ("width", 1024), ("rows", 512)):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    with Worlds(keep_groups=True) as worlds:
        answers = [worlds(RANKS).run(seconds, asked) for _ in range(asked.rounds)]
    for how, of_ranks in (("clock", max), ("processor", sum)):
        ours, loop = (
            statistics.median(
                of_ranks(getattr(rank[side], how) for rank in ranks) for ranks in answers
            )
            for side in ("ours", "loop")
        )
        print(
            f"{how:9} ours {ours * 1000:7.1f} ms, loop {loop * 1000:7.1f} ms: {loop / ours:.2f} ×, "
            f"goal {GOAL}"
        )


if __name__ == "__main__":
    main()
