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


@dataclass(frozen=True)
class Shape:
    layers: int
    hidden: int
    heads: int
    length: int
    vocabulary: int
    tied: bool = True
    groups: int | None = None  # heads of keys and values, where they are fewer
    rotary_base: float | None = None  # None: a learned table of positions
    rotary_percent: float = 1.0
    rms: bool = False
    swiglu: bool = False
    bias: bool = True
    ffn: int | None = None

    @property
    def key_heads(self) -> int:
        return self.groups or self.heads

    def norm(self) -> nn.Module:
        return nn.RMSNorm(self.hidden, 1e-5) if self.rms else nn.LayerNorm(self.hidden)


def rotated(x: Tensor, base: float, percent: float) -> Tensor:
    """[samples, heads, positions, width]: component i and i + half are a complex number, which is
    multiplied by e^(i · position · frequency)."""
    turned = int(x.shape[3] * percent)
    half = turned // 2
    frequencies = 1 / base ** (torch.arange(0, turned, 2, dtype=torch.float64) / turned)
    angles = torch.arange(x.shape[2])[:, None] * frequencies
    wide = torch.promote_types(x.dtype, torch.float32)
    factor = torch.polar(torch.ones_like(angles), angles).to(wide.to_complex())
    point = torch.complex(x[..., :half].to(wide), x[..., half:turned].to(wide)) * factor
    return torch.cat([point.real.to(x.dtype), point.imag.to(x.dtype), x[..., turned:]], 3)


class PlainAttention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape, hidden = shape, shape.hidden
        self.width = hidden // shape.heads
        keys = 2 * shape.key_heads * self.width
        self.qkv = nn.Linear(hidden, hidden + keys, bias=shape.bias)
        self.out = nn.Linear(hidden, hidden, bias=shape.bias)

    def forward(self, x: Tensor) -> Tensor:
        samples, length, hidden = x.shape
        groups, several = self.shape.key_heads, self.shape.heads // self.shape.key_heads
        qkv = self.qkv(x).view(samples, length, groups, several + 2, self.width)
        query = qkv[..., :several, :].flatten(2, 3).transpose(1, 2)
        key, value = (qkv[..., several + n, :].transpose(1, 2) for n in (0, 1))
        if self.shape.rotary_base:
            rule = (self.shape.rotary_base, self.shape.rotary_percent)
            query, key = rotated(query, *rule), rotated(key, *rule)
        if several > 1:
            key, value = (x.repeat_interleave(several, 1) for x in (key, value))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(samples, length, hidden))


class PlainLayer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        hidden, ffn = shape.hidden, shape.ffn or 4 * shape.hidden
        self.norm_1 = shape.norm()
        self.attention = PlainAttention(shape)
        self.norm_2 = shape.norm()
        self.up = nn.Linear(hidden, ffn, bias=shape.bias)
        if shape.swiglu:
            self.gate = nn.Linear(hidden, ffn, bias=shape.bias)
        self.down = nn.Linear(ffn, hidden, bias=shape.bias)
        self.swiglu = shape.swiglu

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x))
        y = self.norm_2(x)
        if self.swiglu:
            return x + self.down(functional.silu(self.gate(y)) * self.up(y))
        return x + self.down(functional.gelu(self.up(y), approximate="tanh"))


class PlainGPT(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.word = nn.Embedding(shape.vocabulary, shape.hidden)
        if not shape.rotary_base:
            self.position = nn.Embedding(shape.length, shape.hidden)
        self.layers = nn.ModuleList(PlainLayer(shape) for _ in range(shape.layers))
        self.final_norm = shape.norm()
        for matrix in (p for p in self.parameters() if p.ndim > 1):
            nn.init.normal_(matrix, 0.0, 0.02)
        self.rotary = bool(shape.rotary_base)
        self.output = self.word if shape.tied else nn.Embedding(shape.vocabulary, shape.hidden)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """[samples, positions] each → the mean loss."""
        x = self.word(tokens)
        if not self.rotary:
            x = x + self.position.weight[: tokens.shape[1]]
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
