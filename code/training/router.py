"""Router of a mixture of experts: it chooses each token's experts and their weights.

A mixture of experts has many MLPs in place of one, and a token uses a few of them. The router is
one matrix, [experts, hidden], which gives every token a score for every expert:

    scores   = softmax(x Wᵀ), or the sigmoid of each number alone
    chosen   = the --moe-router-topk experts with the highest scores
    weights  = their scores, divided by their sum: the weights of the experts' outputs
               (--moe-router-pre-softmax does not divide)

By itself, this does not balance the experts: an expert that is chosen often learns more and is
chosen more often. Two remedies can be used, alone or together:

    a loss   (--moe-aux-loss-coeff)  experts · Σ (share of the choices · mean score), over experts.
             It is 1 if all are equal, and more if they are not; its gradient lowers the scores of
             busy experts. As in Megatron-LM, it is computed per micro-batch, so it depends on the
             size of a micro-batch, but not on the ranks that share one.
    a bias   (--moe-router-enable-expert-bias)  is added to the scores only for the choice of
             experts. After each step it is raised for an expert with fewer tokens than the mean,
             and lowered for an expert with more. There is no gradient."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Function

from flags.ranges import pattern_of
from parallel.layout import ExpertGroups, Group
from process.pace import communicating
from process.profile_ranges import in_backward

if TYPE_CHECKING:
    from parallel.experts import Experts
    from training.model import Stage


class _WithLoss(Function):
    """Identity of the weights; backward also gives `loss` its gradient, as if it were added to the
    loss of the model."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, loss: Tensor, gradient: Tensor | float) -> Tensor:
        ctx.gradient, ctx.like = gradient, loss
        return weights.view_as(weights)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        return grad, torch.ones_like(ctx.like) * ctx.gradient, None


class Router(nn.Module):
    """Router: [rows, hidden] → weights and numbers of the chosen experts, both [rows, topk]."""

    bias: Tensor | None

    def __init__(self, args: argparse.Namespace, groups: ExpertGroups) -> None:
        super().__init__()
        self.count, self.topk, self.groups = args.num_experts, args.moe_router_topk, groups
        self.softmax = args.moe_router_score_function == "softmax"
        # With one expert the sum is its own score: every weight would be 1, and the router would
        # learn nothing.
        self.normalizes = not args.moe_router_pre_softmax if self.softmax else self.topk > 1
        self.coefficient = args.moe_aux_loss_coeff if _has_loss(args) else 0.0
        self.rate = args.moe_router_bias_update_rate
        self.weight = nn.Parameter(torch.empty(self.count, args.hidden_size))
        has_bias = args.moe_router_enable_expert_bias
        self.register_buffer("bias", torch.zeros(self.count) if has_bias else None)
        self.begin(0.0)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Router:
        """Convert the module; the bias stays float32, as bfloat16 would round its updates away."""
        bias = self.bias
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.bias = None if bias is None else bias.to(self.weight.device)
        return self

    def begin(self, loss_gradient: Tensor | float) -> None:
        """Begin a step in which each token's loss has this gradient."""
        self.loss_gradient = loss_gradient
        self.tokens: Tensor | None = None  # [experts]: number of this rank's rows that chose each
        self.loss: Tensor | float = 0.0  # this rank's part of the loss, over all micro-batches

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        wide = torch.promote_types(x.dtype, torch.float32)
        logits = nn.functional.linear(x.to(wide), self.weight.to(wide))
        scores = logits.softmax(1) if self.softmax else logits.sigmoid()
        ranked = scores if self.bias is None else scores + self.bias
        chosen = ranked.detach().topk(self.topk, 1).indices
        weights = scores.gather(1, chosen)
        if self.normalizes:
            weights = weights / weights.sum(1, keepdim=True)
        tokens = chosen.flatten().bincount(minlength=self.count)
        # An evaluation does not count, and recomputation repeats the choices.
        is_new = torch.is_grad_enabled() and not in_backward()
        if is_new:
            self.tokens = tokens if self.tokens is None else self.tokens + tokens
        if self.coefficient and torch.is_grad_enabled():
            loss, rows = self._balancing_loss(scores, tokens)
            gradient = self.loss_gradient * self.coefficient * rows
            weights = _WithLoss.apply(weights, loss, gradient)
            self.loss += loss.detach() if is_new else 0.0
        return weights, chosen

    def _balancing_loss(self, scores: Tensor, tokens: Tensor) -> tuple[Tensor, int]:
        """Return this rank's part of a micro-batch's loss, and the micro-batch's tokens.

        Tensor and context ranks have different rows, so they exchange the choices. From these and
        its own scores, each rank computes its part of the sum and the gradient."""
        group = self.groups.micro_batch
        tokens, rows = summed(tokens, group), scores.shape[0] * group.size
        shares = scores if self.softmax else scores / scores.sum(1, keepdim=True)
        of_choices = tokens.to(scores.dtype) / (self.topk * rows)
        return self.count * (of_choices * (shares.sum(0) / rows)).sum(), rows

    @torch.no_grad()
    def move_bias(self) -> None:
        """Raise the bias of experts with fewer choices than the mean; lower the other biases."""
        if self.bias is not None and self.tokens is not None:
            tokens = summed(self.tokens, self.groups.stage).float()
            self.bias += self.rate * (tokens.mean() - tokens).sign()


def has_experts(args: argparse.Namespace, number: int) -> bool:
    """Parse --moe-layer-freq: every n-th layer, or a list with 1 for expert layers."""
    return bool(args.num_experts and pattern_of(args.moe_layer_freq, args.num_layers)[number])


def _has_loss(args: argparse.Namespace) -> bool:
    return args.moe_router_load_balancing_type == "aux_loss" and args.moe_aux_loss_coeff > 0


def summed(numbers: Tensor, group: Group) -> Tensor:
    if group.size > 1:
        numbers = numbers.clone()
        with communicating("communication: routing"):
            dist.all_reduce(numbers, group=group.handle)
    return numbers


class Routing:
    """All mixtures of this rank's layers, by layer number."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.mixtures: dict[int, tuple[Router, Experts]] = {
            layer.number: (layer.router, layer.experts)
            for stage in stages
            for layer in stage.all_layers()
            if layer.router is not None and layer.experts is not None
        }

    def begin(self, loss_gradient: Tensor | float) -> None:
        for router, experts in self.mixtures.values():
            router.begin(loss_gradient)
            experts.begin()

    def move_biases(self) -> None:
        for router, _ in self.mixtures.values():
            router.move_bias()

    def biases(self) -> dict[str, Tensor]:
        """Return the biases by their names in a checkpoint."""
        return {
            f"layers.{number}.router.bias": router.bias
            for number, (router, _) in self.mixtures.items()
            if router.bias is not None
        }

    def of_this_rank(self) -> dict[str, Any]:
        """Return this rank's last step: choices of its own rows, and bytes sent to other ranks in
        forward. Backward sends as many again in the other direction."""
        to, back = self._sent_bytes()
        tokens = {
            n: r.tokens.tolist() for n, (r, _) in self.mixtures.items() if r.tokens is not None
        }
        return {"tokens_per_expert": tokens, "to_experts_bytes": to, "from_experts_bytes": back}

    def of_all_ranks(
        self, args: argparse.Namespace, everyone: Group, device: torch.device
    ) -> dict[str, str]:
        """Return log fields about the last step, over all ranks, which all call this."""
        if not args.num_experts:
            return {}
        # One sum for tokens [layers, experts], the balancing loss, and the bytes of both ways.
        size = args.num_layers * args.num_experts
        numbers = torch.zeros(size + 3, dtype=torch.float64, device=device)
        tokens = numbers[:size].view(args.num_layers, args.num_experts)
        for number, (router, _) in self.mixtures.items():
            if router.tokens is not None:
                tokens[number] += router.tokens
            numbers[-3] += router.loss
        numbers[-2:] += torch.tensor(self._sent_bytes(), device=device)
        numbers = summed(numbers, everyone)
        tokens = numbers[:size].view_as(tokens)
        used = tokens[tokens.sum(1) > 0]  # the layers that have experts
        busiest = (used.amax(1) / used.mean(1)).max().item()
        micro_batches = args.global_batch_size // args.micro_batch_size
        loss = numbers[-3].item() / len(used) / micro_batches
        fields = {"load_balancing_loss": f"{loss:.6E}"} if _has_loss(args) else {}
        return {
            **fields,
            "fewest tokens per expert": f"{used.min().item():.0f}",
            "most tokens per expert": f"{used.max().item():.0f}",
            "busiest expert over mean": f"{busiest:.3f}",
            "bytes to experts": f"{numbers[-2].item():.0f}",
            "bytes from experts": f"{numbers[-1].item():.0f}",
        }

    def _sent_bytes(self) -> tuple[int, int]:
        sent = [experts.sent_bytes for _, experts in self.mixtures.values()]
        return sum(one["to"] for one in sent), sum(one["back"] for one in sent)
