"""Model: a GPT, or the piece of it on one pipeline stage.

    tokens → word + position embedding → layers → norm → logits of the same word matrix → loss

Flags select newer variants: rotary positions, RMSNorm instead of LayerNorm, SwiGLU instead of GELU,
fewer key and value heads, and no biases. They can also select many MLPs, from which a router
chooses a few for each token.

The first piece has the embedding, the last has the loss, and each has some of the layers.
Parameters are named as in the whole model; their initial values depend on the name alone, so that
every layout starts from the same model."""

from __future__ import annotations

import argparse
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from parallel.context_parallel import Attention, Heads, my_positions
from parallel.experts import Experts
from parallel.layout import Layout
from parallel.products import WeightWork
from parallel.tensor_parallel import (
    ColumnParallel,
    RowParallel,
    Slicing,
    enter,
    slice_of,
    whole_shape,
)
from parallel.vocabulary import VocabularyEmbedding, vocabulary_loss
from process.profile_ranges import in_backward, named
from training.dropout import Masks
from training.eight_bits import eight_bits_of
from training.rotary import turned_width, turns_of
from training.router import Router, has_experts


def dtype_of(args: argparse.Namespace) -> torch.dtype:
    if args.fp64:
        return torch.float64
    return torch.float16 if args.fp16 else torch.bfloat16 if args.bf16 else torch.float32


@dataclass(frozen=True)
class Piece:
    """Part of the model: layers from `start` up to `stop`."""

    start: int
    stop: int
    first: bool
    last: bool


def piece_of(args: argparse.Namespace, layout: Layout, chunk: int, chunks: int) -> Piece:
    """Return the chunk's layers. Stages take turns: stage 0 of two may have layers 0 and 2."""
    stages = layout.pipeline.size
    number = chunk * stages + layout.pipeline.index
    layers = args.num_layers // (stages * chunks)
    last = number == stages * chunks - 1
    return Piece(number * layers, (number + 1) * layers, first=number == 0, last=last)


def norm_of(args: argparse.Namespace, width: int | None = None) -> nn.Module:
    """Create a norm. RMSNorm is LayerNorm without subtraction of the mean and without bias."""
    kind = nn.RMSNorm if args.normalization == "RMSNorm" else nn.LayerNorm
    return kind(width or args.hidden_size, args.norm_epsilon)


class Layer(nn.Module):
    """Layer: [rows, hidden] → the same shape, one row per token of this rank, by position, then
    sample.

    Attention and MLP are branches that add to the rows. Each is a column-parallel and a
    row-parallel matmul, so tensor ranks sum all rows twice in forward and twice in backward."""

    def __init__(
        self, args: argparse.Namespace, layout: Layout, slicing: Slicing, number: int
    ) -> None:
        super().__init__()
        self.number, self.name = number, f"layer {number}"
        hidden, bias = args.hidden_size, not args.disable_bias_linear
        norm = partial(norm_of, args) if args.qk_layernorm else None
        ring = args.cp_comm_type == "p2p"
        heads = Heads(hidden, args.num_attention_heads, args.num_query_groups, bias, norm, ring)
        self.slicing = slicing
        self.norm_1 = norm_of(args)
        self.attention = Attention(heads, slicing, layout.context, self.name)
        self.norm_2 = norm_of(args)
        self.router, self.experts, width = None, None, args.ffn_hidden_size
        if layout.experts is not None and has_experts(args, number):
            self.router = Router(args, layout.experts)
            self.experts = Experts(args, layout.experts, slicing.work)
            # Beside experts, the MLP is the shared expert, which every token uses.
            width = args.moe_shared_expert_intermediate_size
        self.has_mlp = bool(width)
        if not self.has_mlp:
            return
        self.up = ColumnParallel(hidden, width, slicing, bias)
        # A separate matrix: if gate and up were one matrix, its rows would have to be interleaved,
        # so that each tensor rank's slice has matching halves.
        self.gate = ColumnParallel(hidden, width, slicing, bias) if args.swiglu else None
        self.down = RowParallel(width, hidden, slicing, bias)

    def forward(self, x: Tensor, samples: int, turns: Tensor | None, masks: Masks | None) -> Tensor:
        # Added in place: nothing else uses a branch's output.
        mixed = self.attention(self.norm_1(x), samples, turns, masks)
        x = self._dropped(mixed, masks, "attention").add_(x)
        return self._dropped(self.mlp(self.norm_2(x)), masks, "mlp").add_(x)

    def _dropped(self, x: Tensor, masks: Masks | None, branch: str) -> Tensor:
        return masks.of_hidden(x, f"{self.name}/{branch}") if masks else x

    def mlp(self, x: Tensor) -> Tensor:
        if self.router is None or self.experts is None:
            return self.down(self.inner(x))
        mixed: Tensor = self.experts(x, *self.router(x))
        return mixed + self.down(self.inner(x)) if self.has_mlp else mixed

    def inner(self, x: Tensor) -> Tensor:
        """Return GELU of one matmul, or one matmul gated by the SiLU of another (SwiGLU).

        [rows, hidden] → [all rows, MLP width / tensor ranks]"""
        x = enter(x, self.slicing)  # once for both matrices
        if self.gate is None:
            return nn.functional.gelu(self.up.of_entered(x), approximate="tanh")
        return nn.functional.silu(self.gate.of_entered(x)) * self.up.of_entered(x)


class Stage(nn.Module):
    """Piece of the model. Pieces exchange rows of hidden states, one per token."""

    positions: Tensor  # positions of this rank's rows in the sequence
    turns: Tensor | None  # rotary.py's table for the positions in this rank's attention

    def __init__(
        self, args: argparse.Namespace, layout: Layout, piece: Piece, work: WeightWork
    ) -> None:
        super().__init__()
        self.args, self.layout, self.piece, self.work = args, layout, piece, work
        self.samples = args.micro_batch_size
        hidden = args.hidden_size
        fp8 = eight_bits_of(args, layout.context)
        self.slicing = Slicing(layout.tensor, args.sequence_parallel, work, fp8)
        tied = not args.untie_embeddings_and_output_weights
        vocabulary = args.padded_vocab_size
        if piece.first or (piece.last and tied):
            self.word = VocabularyEmbedding(vocabulary, hidden, self.slicing)
        rotary = args.position_embedding_type == "rope"
        if piece.first and not rotary:
            self.position = nn.Embedding(args.max_position_embeddings, hidden)
        numbers = range(piece.start, piece.stop)
        self.layers = nn.ModuleDict({str(n): Layer(args, layout, self.slicing, n) for n in numbers})
        if piece.last:
            self.final_norm = norm_of(args)
            if not tied:
                self.output = VocabularyEmbedding(vocabulary, hidden, self.slicing)
        self.register_buffer("positions", self._row_positions(), persistent=False)
        self.register_buffer("turns", self._turns() if rotary else None, persistent=False)
        self.recomputed = self._recomputed_groups()
        self.when_done: dict[nn.Module, Callable[[], None]] = {}  # used by overlap.py

    def all_layers(self) -> list[Layer]:
        return cast(list[Layer], list(self.layers.values()))

    def _row_positions(self) -> Tensor:
        """Return the positions of this rank's rows; sequence parallelism splits them."""
        positions = my_positions(self.args.seq_length, self.layout.context)
        if self.args.sequence_parallel:
            positions = positions.chunk(self.layout.tensor.size)[self.layout.tensor.index]
        return positions.contiguous()

    def _turns(self) -> Tensor:
        """Return the table for all positions of the context rank, which its attention needs."""
        args = self.args
        width = turned_width(args.hidden_size // args.num_attention_heads, args.rotary_percent)
        return turns_of(my_positions(args.seq_length, self.layout.context), width, args.rotary_base)

    def forward(self, x: Tensor, labels: Tensor, masks: Masks | None = None) -> Tensor:
        """Map rows to rows. The first piece takes tokens; the last returns each token's loss."""
        if self.piece.first:
            x = self.embed(x)
            x = masks.of_hidden(x, "embedding") if masks else x
        for layers, again in self.recomputed:
            x = (
                checkpoint(self.run, layers, x, masks, use_reentrant=False)
                if again
                else self.run(layers, x, masks)
            )
        if not self.piece.last:
            return x
        matrix = self.output if self.args.untie_embeddings_and_output_weights else self.word
        rows = self.args.softmax_rows
        return vocabulary_loss(self.final_norm(x), matrix.weight, labels, self.slicing, rows)

    def embed(self, tokens: Tensor) -> Tensor:
        words = self.word(tokens)
        if self.turns is not None:
            return cast(Tensor, words)  # each layer's attention gets the positions
        # The samples of a position are adjacent: [positions, samples, hidden]. Each position's row
        # is added, [positions, 1, hidden].
        position_rows = self.position(self.positions).unsqueeze(1)
        return (words.view(-1, self.samples, words.shape[1]) + position_rows).view_as(words)

    def run(self, layers: list[Layer], x: Tensor, masks: Masks | None) -> Tensor:
        again = in_backward()
        with named("recompute" if again else "layers"):
            for layer in layers:
                if layer in self.when_done and x.requires_grad and not again:
                    # The gradient of a layer's input is computed last in its backward.
                    x.register_hook(lambda _, done=self.when_done[layer]: done())
                x = layer(x, self.samples, self.turns, masks)
        return x

    def _recomputed_groups(self) -> list[tuple[list[Layer], bool]]:
        """Return groups of layers, with True if a group keeps only its input, not its
        activations.

        full/uniform: every group of N layers keeps only its input. full/block: each of the first N
        layers does. selective: within each layer, attention's own activations are dropped."""
        layers = self.all_layers()
        method = self.args.recompute_method
        count = self.args.recompute_num_layers
        for layer in layers:
            layer.attention.recompute = self.args.recompute_granularity == "selective"
        if method == "uniform":
            return [(layers[at : at + count], True) for at in range(0, len(layers), count)]
        if method == "block":
            return [([layer], number < count) for number, layer in enumerate(layers)]
        return [(layers, False)]


def initialise(stage: Stage, args: argparse.Namespace) -> None:
    """Draw every whole parameter, seeded by its name, and keep this rank's slice.

    A slice drawn alone would depend on the layout; sending values from one rank would need a whole
    model there. So each rank draws more than it keeps, one matrix at a time, without
    communication."""
    # Each layer adds two branches to the rows, whose variance would grow with the number of layers.
    scaled = args.init_method_std / math.sqrt(2 * args.num_layers)
    last = ("out.weight", "down.weight", "experts.down")
    for name, parameter in stage.named_parameters():
        if parameter.ndim == 1:
            nn.init.constant_(parameter, 1.0 if "norm" in name and "weight" in name else 0.0)
            continue
        generator = torch.Generator().manual_seed(args.seed * 2**20 + zlib.crc32(name.encode()))
        shape = whole_shape(parameter)
        deviation = scaled if name.endswith(last) else args.init_method_std
        values = torch.empty(shape).normal_(0, deviation, generator=generator)
        with torch.no_grad():
            parameter.copy_(values[slice_of(parameter)])
