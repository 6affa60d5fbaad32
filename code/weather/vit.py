"""A vision transformer that forecasts: patches of all fields in, the fields six hours later out."""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional


class PatchAttention(nn.Module):
    """Every patch looks at every other: no mask, for weather comes from all sides."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, patches, width = x.shape
        three = self.query_key_value(x).view(batch, patches, 3, self.heads, width // self.heads)
        query, key, value = three.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value)
        return self.out(seen.transpose(1, 2).reshape(batch, patches, width))


class EncoderLayer(nn.Module):
    def __init__(self, width: int, heads: int, mlp_ratio: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = PatchAttention(width, heads)
        self.mlp = nn.Sequential(
            nn.Linear(width, mlp_ratio * width), nn.GELU(), nn.Linear(mlp_ratio * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class WeatherModel(nn.Module):
    """`height` and `width` are those of the whole planet: a piece of it takes the positions of its
    patches from there, so a model that has learned from pieces forecasts the whole."""

    def __init__(self, args: argparse.Namespace, height: int, width: int, channels: int) -> None:
        super().__init__()
        self.patch, self.channels = args.patch_size, channels
        self.tall, self.wide = height // self.patch, width // self.patch
        inside = channels * self.patch**2
        self.embed = nn.Linear(inside, args.embed_dim)
        self.position = nn.Parameter(torch.zeros(self.tall, self.wide, args.embed_dim))
        self.layers = nn.ModuleList(
            EncoderLayer(args.embed_dim, args.num_heads, args.mlp_ratio) for _ in range(args.depth)
        )
        self.norm = nn.LayerNorm(args.embed_dim)
        self.head = nn.Linear(args.embed_dim, inside)
        self.adds = args.forecast == "change"
        nn.init.trunc_normal_(self.position, std=0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
        if self.adds:  # begins with "as it is now", the forecast to beat
            nn.init.zeros_(self.head.weight)

    def forward(self, now: Tensor, corner: Tensor) -> Tensor:
        batch, _, height, width = now.shape
        tall, wide = height // self.patch, width // self.patch
        x = self.embed(self._patches(now, tall, wide)) + self._positions(corner, tall, wide)
        for layer in self.layers:
            x = layer(x)
        x = self.head(self.norm(x)).view(batch, tall, wide, self.channels, self.patch, self.patch)
        forecast = x.permute(0, 3, 1, 4, 2, 5).reshape(now.shape)
        return now + forecast if self.adds else forecast

    def _patches(self, now: Tensor, tall: int, wide: int) -> Tensor:
        """[batch, channels, height, width] → [batch, patches, all numbers of a patch]"""
        parts = now.view(now.shape[0], self.channels, tall, self.patch, wide, self.patch)
        return parts.permute(0, 2, 4, 1, 3, 5).reshape(now.shape[0], tall * wide, -1)

    def _positions(self, corner: Tensor, tall: int, wide: int) -> Tensor:
        at = corner // self.patch
        rows = at[:, :1] + torch.arange(tall, device=at.device)
        columns = (at[:, 1:] + torch.arange(wide, device=at.device)) % self.wide
        return self.position[rows[:, :, None], columns[:, None, :]].flatten(1, 2)
