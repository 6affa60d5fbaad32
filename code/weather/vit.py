"""Vision transformer for forecasts: patches of all fields in, the fields six hours later out.

Ranks may share it in two ways. Tensor ranks have some heads and a part of the MLP's inner width,
for all patches. Context ranks have all weights, for some patches."""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional

from parallel.context_parallel import gather_pieces
from parallel.layout import ALONE, Group
from parallel.products import WeightWork
from parallel.tensor_parallel import ColumnParallel, RowParallel, Slicing, slice_of, whole_shape


class PatchAttention(nn.Module):
    """Attention without a mask, as weather comes from all sides. Every patch has equal work, so
    context ranks take the patches in order."""

    def __init__(self, width: int, heads: int, slicing: Slicing, context: Group) -> None:
        super().__init__()
        self.heads, self.context = heads // slicing.group.size, context
        # Query, key and value of one head, then of the next: a slice has whole heads.
        self.query_key_value = ColumnParallel(width, 3 * width, slicing)
        self.out = RowParallel(width, width, slicing)

    def forward(self, x: Tensor) -> Tensor:
        batch, patches, _ = x.shape
        three = self.query_key_value(x).view(batch, patches, self.heads, 3, -1)
        query, both = three[:, :, :, 0], gather_pieces(three[:, :, :, 1:], self.context)
        query, key, value = (part.transpose(1, 2) for part in (query, *both.unbind(3)))
        seen = functional.scaled_dot_product_attention(query, key, value)
        return self.out(seen.transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(
        self, width: int, heads: int, mlp_ratio: int, slicing: Slicing, context: Group
    ) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = PatchAttention(width, heads, slicing, context)
        inside = mlp_ratio * width
        self.mlp = nn.Sequential(
            ColumnParallel(width, inside, slicing), nn.GELU(), RowParallel(inside, width, slicing)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class WeatherModel(nn.Module):
    """Model for a planet of `height` × `width`. A crop uses the planet's positions of its patches,
    so a model that was trained on crops can forecast the whole."""

    def __init__(
        self, args: argparse.Namespace, height: int, width: int, channels: int,
        tensor: Group = ALONE, context: Group = ALONE,
    ) -> None:  # fmt: skip
        super().__init__()
        self.patch, self.channels, self.context = args.patch_size, channels, context
        self.tall, self.wide = height // self.patch, width // self.patch
        inside = channels * self.patch**2
        slicing = Slicing(tensor, by_rows=False, work=WeightWork(returned=True))
        self.embed = nn.Linear(inside, args.embed_dim)
        self.position = nn.Parameter(torch.zeros(self.tall, self.wide, args.embed_dim))
        self.layers = nn.ModuleList(
            EncoderLayer(args.embed_dim, args.num_heads, args.mlp_ratio, slicing, context)
            for _ in range(args.depth)
        )
        self.norm = nn.LayerNorm(args.embed_dim)
        self.head = nn.Linear(args.embed_dim, inside)
        self.adds = args.forecast == "change"
        draw(self)
        if self.adds:  # start with persistence, the forecast to beat
            nn.init.zeros_(self.head.weight)

    def forward(self, now: Tensor, corner: Tensor) -> Tensor:
        batch, _, height, width = now.shape
        tall, wide = height // self.patch, width // self.patch
        patches, positions = self._patches(now, tall, wide), self._positions(corner, tall, wide)
        x = self.embed(self._mine(patches)) + self._mine(positions)
        for layer in self.layers:
            x = layer(x)
        # Context ranks then have the same whole forecast. In backward, the gather sums their equal
        # gradients, which multiplies by the number of ranks; the average over all copies of the
        # weights divides by it. The sum over the patches remains.
        x = gather_pieces(self.head(self.norm(x)), self.context)
        x = x.view(batch, tall, wide, self.channels, self.patch, self.patch)
        forecast = x.permute(0, 3, 1, 4, 2, 5).reshape(now.shape)
        return now + forecast if self.adds else forecast

    def _mine(self, x: Tensor) -> Tensor:
        return x.chunk(self.context.size, 1)[self.context.index]

    def _patches(self, now: Tensor, tall: int, wide: int) -> Tensor:
        """Map [batch, channels, height, width] → [batch, patches, all numbers of a patch]."""
        parts = now.view(now.shape[0], self.channels, tall, self.patch, wide, self.patch)
        return parts.permute(0, 2, 4, 1, 3, 5).reshape(now.shape[0], tall * wide, -1)

    def _positions(self, corner: Tensor, tall: int, wide: int) -> Tensor:
        at = corner // self.patch
        rows = at[:, :1] + torch.arange(tall, device=at.device)
        columns = (at[:, 1:] + torch.arange(wide, device=at.device)) % self.wide
        return self.position[rows[:, :, None], columns[:, None, :]].flatten(1, 2)


def draw(model: WeatherModel) -> None:
    """Draw every whole matrix and keep this rank's slice, so that all layouts start alike."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif parameter.ndim > 1:
            whole = parameter.new_empty(whole_shape(parameter))
            nn.init.trunc_normal_(whole, std=0.02)
            parameter.data.copy_(whole[slice_of(parameter)])
