"""Data parallelism: every rank has different samples, and gradients are summed before the step.

    replicated   every rank keeps parameters, gradients and optimizer state of its model slice
    ZeRO-1       optimizer state is sharded: gradients are reduce-scattered, each rank updates its
                 part, and parameters are gathered (--use-distributed-optimizer)
    FSDP2        parameters and gradients are sharded as well: see fully_sharded.py

For the first two, all parameters of a rank are in one buffer and all gradients in another: one
collective, one norm, one optimizer kernel, independent of the number of layers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from parallel.layout import Layout
from parallel.overlap import GradientBuckets
from parallel.products import Weight
from parallel.tensor_parallel import cuts_of, is_partial
from process.pace import communicating

if TYPE_CHECKING:
    from training.model import Stage

ALIGNMENT = 64  # elements; kernels are fastest on rows that start at a cache line


@dataclass
class Part:
    """Range of parameters that the optimizer of this rank updates."""

    parameter: Tensor
    gradient: Tensor
    decays: bool
    counted: bool  # in the gradient norm; other ranks hold and count the same values


class Replicated:
    """Parameters in one buffer and gradients in another; `sharded` is ZeRO-1.

    The order in the buffers makes each kind of parameters one contiguous range:

        borrowed   the last stage's copy of the word embeddings (the first stage's counts)
        matrices   split over the tensor group, with weight decay
        positions  the same on all tensor ranks, with weight decay
        vectors    norms and the biases of row-parallel layers: the same on all tensor ranks
        heads      norms of queries and keys: the same on all tensor ranks, which have other heads
        biases     of column-parallel layers, split

    Experts have their own buffers, since other ranks have copies of them: `of_experts`."""

    KINDS = ("borrowed", "matrices", "positions", "vectors", "heads", "biases")

    def __init__(
        self,
        stages: list[Stage],
        layout: Layout,
        gradient_type: torch.dtype,
        sharded: bool,
        of_experts: bool = False,
    ) -> None:
        self.layout, self.of_experts = layout, of_experts
        self.sequence_parallel = stages[0].args.sequence_parallel and not of_experts
        # Ranks with the same parameters, over which gradients are summed.
        self.group = layout.experts.data if layout.experts and of_experts else layout.data_context
        # In interleaved pipelines a rank has several stages, which share the two buffers.
        named_parameters = [
            (name, parameter)
            for stage in stages
            for name, parameter in stage.named_parameters()
            if (".experts." in name) == of_experts
        ]
        kinds = {id(p): self._kind(name, p, stages) for name, p in named_parameters}
        self.parameters = sorted(
            (p for _, p in named_parameters), key=lambda p: self.KINDS.index(kinds[id(p)])
        )
        self.shared_word = None if of_experts else _shared_word(stages)
        shards = self.group.size if sharded else 1
        # Offset of each parameter, and range of each kind, in elements.
        self.offsets, size, self.spans = {}, 0, {}
        for kind in self.KINDS:
            start = size
            for p in (p for p in self.parameters if kinds[id(p)] == kind):
                self.offsets[id(p)] = size
                size += _aligned(p)
            self.spans[kind] = slice(start, size)
        size = -(-size // shards) * shards  # ZeRO-1 cuts the buffer into equal shards
        first = self.parameters[0]
        self.values = torch.zeros(size, dtype=first.dtype, device=first.device)
        self.gradients = torch.zeros(size, dtype=gradient_type, device=first.device)
        for p in self.parameters:
            self._move_in(p)
        self.names = [(name, self._at(p), p.shape) for name, p in named_parameters]
        # Range that this rank updates: everything, or with ZeRO-1 one shard. A shard may begin or
        # end within a parameter, since Adam works on each element alone.
        here = self.group.index if sharded else 0
        self.shard = slice(here * (size // shards), (here + 1) * (size // shards))
        self.sharded = shards > 1
        self.reduced = self.gradients.new_zeros(size // shards) if self.sharded else self.gradients
        # Ranks over which squares are summed for the gradient norm. After a reduce-scatter each
        # data rank has the sum of its own shard only; after an all-reduce all data ranks have the
        # same values. Experts have other copies than the rest: the first of them counts, over all
        # ranks.
        self.norm_group = layout.everyone if self.sharded or layout.experts else layout.model
        self.counts = self.sharded or not layout.experts or self.group.first
        self.buckets: GradientBuckets | None = None

    def _kind(self, name: str, parameter: Tensor, stages: list[Stage]) -> str:
        cut = cuts_of(parameter) or self.layout.tensor.size == 1 or self.of_experts
        if is_partial(parameter) and self.layout.tensor.size > 1:
            return "heads"
        if parameter.ndim == 1:
            return "biases" if cut and "norm" not in name else "vectors"
        borrowed = name == "word.weight" and not any(stage.piece.first for stage in stages)
        if borrowed:
            return "borrowed"
        return "matrices" if cut else "positions"

    def _at(self, parameter: Tensor) -> slice:
        start = self.offsets[id(parameter)]
        return slice(start, start + parameter.numel())

    def _move_in(self, parameter: Weight) -> None:
        """Make the parameter and its gradient views of the buffers.

        Backward then adds directly to the buffer that is sent, without copies before or after."""
        at = self._at(parameter)
        self.values[at].copy_(parameter.data.flatten())
        parameter.data = self.values[at].view_as(parameter)
        parameter.main_grad = self.gradients[at].view_as(parameter)
        if self.gradients.dtype == parameter.dtype:
            parameter.grad = parameter.main_grad  # autograd adds to an existing .grad
        else:  # bfloat16 parameters with float32 sums: .grad must have the parameter's type
            parameter.register_post_accumulate_grad_hook(_add_to_main_grad)

    def parts(self) -> list[Part]:
        """Return the ranges of this rank's shard, with equal neighbours merged."""
        first = self.layout.tensor.first
        rules = {  # kind: decays, counted in the norm
            "borrowed": (True, False),
            "matrices": (True, self.counts),
            "positions": (True, self.counts and first),
            "vectors": (False, self.counts and first),
            "heads": (False, self.counts and first),
            "biases": (False, self.counts),
        }
        found: list[tuple[int, int, tuple[bool, bool]]] = []
        for kind in self.KINDS:
            start = max(self.spans[kind].start, self.shard.start)
            stop = min(self.spans[kind].stop, self.shard.stop)
            if start < stop and found and found[-1][1:] == (start, rules[kind]):
                found[-1] = (found[-1][0], stop, rules[kind])
            elif start < stop:
                found.append((start, stop, rules[kind]))
        here = self.shard.start
        return [
            Part(self.values[a:b], self.reduced[a - here : b - here], *rule) for a, b, rule in found
        ]

    def by_name(self, values: list[Tensor]) -> dict[str, Tensor]:
        """Return values of this rank's parts by parameter; ZeRO's shards are gathered first."""
        everything = torch.cat([value.detach().flatten() for value in values])
        if self.sharded:
            # The last shard may end with padding, which belongs to no part and is no value.
            shard = everything.new_zeros(self.reduced.numel())
            shard[: everything.numel()] = everything
            everything = everything.new_empty(self.values.numel())
            dist.all_gather_single(everything, shard, group=self.group.handle)
        return {name: everything[at].view(shape) for name, at, shape in self.names}

    def from_names(self, named: dict[str, Tensor], like: list[Tensor]) -> list[Tensor]:
        # The reverse of by_name: fill the whole buffer, then keep what this rank updates.
        everything = like[0].new_zeros(self.values.numel())
        for name, at, _ in self.names:
            everything[at] = named[name].flatten()
        sizes = [part.numel() for part in like]
        own = everything[self.shard][: sum(sizes)]
        return [part.clone() for part in own.split(sizes)]

    def tensors(self) -> dict[str, list[Tensor]]:
        return {"parameters": [self.values], "gradients": [self.gradients, self.reduced]}

    def zero(self) -> None:
        self.gradients.zero_()

    def overlap(self, stages: list[Stage], bucket_size: int) -> None:
        """Sum matrices of finished layers during backward from now on: overlap.py."""
        shard = self.reduced.numel() if self.sharded else 0
        self.buckets = GradientBuckets(self.gradients, self.group, bucket_size, shard)
        matrices = self.spans["matrices"]
        for stage in stages:
            for layer in stage.layers.values():
                mine = [p for p in layer.parameters() if id(p) in self.offsets]  # no experts
                ends = [(self.offsets[id(p)], _aligned(p)) for p in mine]
                inside = [(at, size) for at, size in ends if matrices.start <= at < matrices.stop]
                span = slice(min(inside)[0], sum(max(inside)))
                stage.when_done[layer] = partial(self.buckets.layer_done, span)

    def last_backward(self, last: bool) -> None:
        """Note whether this is the last backward; without buckets, sums start only after it."""
        if self.buckets is not None:
            self.buckets.open = last

    def evaluated(self) -> None:
        """Do nothing: parameters are always complete."""

    def reduce(self) -> None:
        """Sum the gradients over all ranks that hold the same parameters."""
        with communicating("communication: gradients"):
            # 1. With sequence parallelism, tensor ranks split a norm's tokens. Each has a part of
            # the gradient although they hold the same values: one all-reduce of the range. Norms of
            # queries and keys always see other heads on each tensor rank.
            begin = self.spans["positions" if self.sequence_parallel else "heads"].start
            alike = slice(begin, self.spans["heads"].stop)
            if begin < alike.stop:
                dist.all_reduce(self.gradients[alike], group=self.layout.tensor.handle)
            # 2. First and last pipeline stage use the same word embeddings as look-up table and as
            # output matrix; each use contributes to the gradient.
            if self.shared_word is not None and self.layout.ends.size > 1:
                dist.all_reduce(self.shared_word.main_grad, group=self.layout.ends.handle)
            # 3. Data (and context) ranks had other tokens. In a ring of n ranks an all-reduce sends
            # 2 (n - 1) / n of the buffer, a reduce-scatter half as much: each rank gets the sum of
            # its own shard. gather() sends the other half, as parameters.
            if self.buckets is not None:
                self.buckets.finish()
                if self.sharded:
                    self.reduced.copy_(self.gradients[self.shard])
            elif self.sharded:
                dist.reduce_scatter_single(self.reduced, self.gradients, group=self.group.handle)
            elif self.group.size > 1:
                dist.all_reduce(self.gradients, group=self.group.handle)

    def gather(self) -> None:
        """Give every rank the parameters that other ranks updated."""
        if self.sharded:
            with communicating("communication: parameters"):
                mine = self.values[self.shard].clone()  # input and output may not overlap
                dist.all_gather_single(self.values, mine, group=self.group.handle)


class WithExperts:
    """Experts and the rest of a model, replicated on different ranks, combined for the
    optimizer.

    An expert's gradient needs the tokens of all ranks. The all-to-alls already brought the tokens
    of the ranks that share the experts; the ranks with copies of the expert have the rest."""

    def __init__(self, rest: Replicated, experts: Replicated) -> None:
        self.rest, self.experts, self.both = rest, experts, (rest, experts)
        self.values, self.gradients = rest.values, rest.gradients  # equal on data ranks
        self.norm_group = rest.norm_group
        # Experts are summed after backward.
        self.overlap, self.last_backward = rest.overlap, rest.last_backward
        self.evaluated = rest.evaluated

    def parts(self) -> list[Part]:
        return [part for one in self.both for part in one.parts()]

    def by_name(self, values: list[Tensor]) -> dict[str, Tensor]:
        count = len(self.rest.parts())
        experts = self.experts.by_name(values[count:])
        return {**self.rest.by_name(values[:count]), **experts}

    def from_names(self, named: dict[str, Tensor], like: list[Tensor]) -> list[Tensor]:
        count = len(self.rest.parts())
        experts = self.experts.from_names(named, like[count:])
        return [*self.rest.from_names(named, like[:count]), *experts]

    def tensors(self) -> dict[str, list[Tensor]]:
        rest, experts = self.rest.tensors(), self.experts.tensors()
        return {purpose: [*rest[purpose], *experts[purpose]] for purpose in rest}

    def zero(self) -> None:
        for one in self.both:
            one.zero()

    def reduce(self) -> None:
        for one in self.both:
            one.reduce()

    def gather(self) -> None:
        for one in self.both:
            one.gather()


def _aligned(parameter: Tensor) -> int:
    return -(-parameter.numel() // ALIGNMENT) * ALIGNMENT


def _add_to_main_grad(parameter: Weight) -> None:
    if parameter.grad is not None:  # None if a matmul has added its part already
        parameter.main_grad.add_(parameter.grad)
        parameter.grad = None


def _shared_word(stages: list[Stage]) -> Weight | None:
    """Return the shared word embeddings, if this rank has them and the model uses them at both
    ends."""
    for stage in stages:
        if hasattr(stage, "word") and not stage.args.untie_embeddings_and_output_weights:
            return stage.word.weight
    return None
