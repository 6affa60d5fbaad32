"""A GPT for one device, written with PyTorch's own layers.

The training program must compute the same (test_equality.py) and is measured against this model
(engine.py and gpu.py of benchmarks/). Parameters have the program's names and shapes, so that
weights can be exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from fake_quantisation import Eight, FakeQuantised
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Mixture:
    """Experts in some of the layers, as the program's flags describe them."""

    layers: tuple[int, ...]
    experts: int
    topk: int
    width: int
    shared: int | None
    sigmoid: bool
    pre_softmax: bool
    bias: bool
    coefficient: float
    rate: float
    rows: int  # of a micro-batch, over which the auxiliary loss is a mean


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
    mixture: Mixture | None = None
    qk_norm: bool = False
    eight: Eight | None = None  # linear layers in eight bits

    @property
    def key_heads(self) -> int:
        return self.groups or self.heads

    def linear(self, inputs: int, outputs: int) -> nn.Linear:
        if self.eight is None:
            return nn.Linear(inputs, outputs, bias=self.bias)
        layer = FakeQuantised(inputs, outputs, bias=self.bias)
        layer.eight = self.eight
        return layer

    def norm(self, width: int | None = None) -> nn.Module:
        width = width or self.hidden
        return nn.RMSNorm(width, 1e-5) if self.rms else nn.LayerNorm(width)


def rotated(x: Tensor, base: float, percent: float) -> Tensor:
    """Rotate [samples, heads, positions, width]. Components i and i + half form a complex number,
    which is multiplied by e^(i · position · frequency)."""
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
        self.qkv = shape.linear(hidden, hidden + keys)
        self.out = shape.linear(hidden, hidden)
        if shape.qk_norm:
            self.query_norm, self.key_norm = shape.norm(self.width), shape.norm(self.width)

    def forward(self, x: Tensor) -> Tensor:
        samples, length, hidden = x.shape
        groups, several = self.shape.key_heads, self.shape.heads // self.shape.key_heads
        qkv = self.qkv(x).view(samples, length, groups, several + 2, self.width)
        query = qkv[..., :several, :].flatten(2, 3).transpose(1, 2)
        key, value = (qkv[..., several + n, :].transpose(1, 2) for n in (0, 1))
        if self.shape.qk_norm:
            query, key = self.query_norm(query), self.key_norm(key)
        if self.shape.rotary_base:
            rule = (self.shape.rotary_base, self.shape.rotary_percent)
            query, key = rotated(query, *rule), rotated(key, *rule)
        if several > 1:
            key, value = (x.repeat_interleave(several, 1) for x in (key, value))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(samples, length, hidden))


class PlainRouter(nn.Module):
    def __init__(self, hidden: int, of: Mixture) -> None:
        super().__init__()
        self.of = of
        self.weight = nn.Parameter(torch.empty(of.experts, hidden))
        self.register_buffer("bias", torch.zeros(of.experts) if of.bias else None)
        self.loss: Tensor | float = 0.0
        self.tokens = torch.zeros(of.experts)

    def forward(self, x: Tensor) -> Tensor:
        """[rows, hidden] → [rows, experts]: the weight of every expert, 0 if not chosen."""
        of, logits = self.of, x @ self.weight.t()
        scores = logits.sigmoid() if of.sigmoid else logits.softmax(1)
        ranked = scores if self.bias is None else scores + self.bias
        chosen = torch.zeros_like(scores).scatter(1, ranked.topk(of.topk, 1).indices, 1.0)
        if of.sigmoid:
            weights = scores * chosen
            weights = weights / weights.sum(1, keepdim=True) if of.topk > 1 else weights
        elif of.pre_softmax:
            weights = scores * chosen
        else:
            weights = logits.masked_fill(chosen == 0, -torch.inf).softmax(1)
        shares = scores / scores.sum(1, keepdim=True)
        pieces = zip(chosen.split(of.rows), shares.split(of.rows), strict=True)
        losses = [of.experts * (c.mean(0) / of.topk * s.mean(0)).sum() for c, s in pieces]
        self.loss = of.coefficient * torch.stack(losses).mean()
        self.tokens = chosen.detach().sum(0)
        return weights

    def move_bias(self) -> None:
        if self.bias is not None:
            self.bias += self.of.rate * (self.tokens.mean() - self.tokens).sign()


class PlainExperts(nn.Module):
    def __init__(self, hidden: int, of: Mixture, swiglu: bool) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.empty(of.experts, of.width, hidden))
        self.gate = nn.Parameter(torch.empty(of.experts, of.width, hidden)) if swiglu else None
        self.down = nn.Parameter(torch.empty(of.experts, hidden, of.width))

    def forward(self, x: Tensor, weights: Tensor) -> Tensor:
        """Every expert computes every row; most of it is then multiplied by 0."""
        inner = torch.einsum("rh,ewh->erw", x, self.up)
        if self.gate is None:
            inner = functional.gelu(inner, approximate="tanh")
        else:
            inner = functional.silu(torch.einsum("rh,ewh->erw", x, self.gate)) * inner
        return torch.einsum("erw,ehw,re->rh", inner, self.down, weights)


class PlainLayer(nn.Module):
    def __init__(self, shape: Shape, number: int) -> None:
        super().__init__()
        hidden, ffn = shape.hidden, shape.ffn or 4 * shape.hidden
        self.router, of = None, shape.mixture
        if of and of.layers[number]:
            self.router, ffn = PlainRouter(hidden, of), of.shared
            self.experts = PlainExperts(hidden, of, shape.swiglu)
        self.norm_1 = shape.norm()
        self.attention = PlainAttention(shape)
        self.norm_2 = shape.norm()
        self.swiglu, self.has_mlp = shape.swiglu, bool(ffn)
        if not ffn:
            return
        self.up = shape.linear(hidden, ffn)
        if shape.swiglu:
            self.gate = shape.linear(hidden, ffn)
        self.down = shape.linear(ffn, hidden)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x))
        y = self.norm_2(x)
        if self.router is not None:
            rows = y.flatten(0, 1)
            x = x + self.experts(rows, self.router(rows)).view_as(x)
        return x + self.mlp(y) if self.has_mlp else x

    def mlp(self, y: Tensor) -> Tensor:
        if self.swiglu:
            return self.down(functional.silu(self.gate(y)) * self.up(y))
        return self.down(functional.gelu(self.up(y), approximate="tanh"))


class PlainGPT(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.word = nn.Embedding(shape.vocabulary, shape.hidden)
        if not shape.rotary_base:
            self.position = nn.Embedding(shape.length, shape.hidden)
        self.layers = nn.ModuleList(PlainLayer(shape, n) for n in range(shape.layers))
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

    @property
    def routers(self) -> list[PlainRouter]:
        return [layer.router for layer in self.layers if layer.router is not None]

    def groups(self, weight_decay: float) -> list[dict[str, object]]:
        """Return the groups of AdamW: matrices decay, vectors do not."""
        matrices = [p for p in self.parameters() if p.ndim > 1]
        vectors = [p for p in self.parameters() if p.ndim == 1]
        return [
            {"params": matrices, "weight_decay": weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
