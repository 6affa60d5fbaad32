"""A GPT as one would write it for one device, with nothing but PyTorch's own layers.

The training program must compute what it computes (test_equality.py) and is measured against it
(engine.py and gpu.py of benchmarks/). Parameter names and shapes are the program's, so that weights
can be exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


class PlainAttention(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        samples, length, hidden = x.shape
        qkv = self.qkv(x).view(samples, length, self.heads, 3, hidden // self.heads)
        query, key, value = qkv.permute(3, 0, 2, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(samples, length, hidden))


class PlainLayer(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(hidden)
        self.attention = PlainAttention(hidden, heads)
        self.norm_2 = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x))
        return x + self.down(functional.gelu(self.up(self.norm_2(x)), approximate="tanh"))


@dataclass(frozen=True)
class Shape:
    layers: int
    hidden: int
    heads: int
    length: int
    vocabulary: int
    tied: bool = True


class PlainGPT(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.word = nn.Embedding(shape.vocabulary, shape.hidden)
        self.position = nn.Embedding(shape.length, shape.hidden)
        self.layers = nn.ModuleList(
            PlainLayer(shape.hidden, shape.heads) for _ in range(shape.layers)
        )
        self.final_norm = nn.LayerNorm(shape.hidden)
        for matrix in (p for p in self.parameters() if p.ndim > 1):
            nn.init.normal_(matrix, 0.0, 0.02)
        self.output = self.word if shape.tied else nn.Embedding(shape.vocabulary, shape.hidden)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """[samples, positions] each → the mean loss."""
        x = self.word(tokens) + self.position.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        logits = functional.linear(self.final_norm(x), self.output.weight).flatten(0, 1)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return functional.cross_entropy(logits, labels.flatten())

    def groups(self, weight_decay: float) -> list[dict[str, object]]:
        """AdamW's: matrices decay, vectors do not."""
        matrices = [p for p in self.parameters() if p.ndim > 1]
        vectors = [p for p in self.parameters() if p.ndim == 1]
        return [
            {"params": matrices, "weight_decay": weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
