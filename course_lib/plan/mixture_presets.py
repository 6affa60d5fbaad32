"""Mixture-of-experts models whose shapes were published with their weights."""

from __future__ import annotations

from course_lib.plan.checks import named
from course_lib.plan.mixtures import Mixture
from course_lib.plan.shapes.model import Model


def _decoder(name: str, shape: tuple[int, int, int, int, int], vocabulary: int) -> Model:
    """Build a model from `shape`: layers, hidden, heads, key-value groups, width of one expert."""
    layers, hidden, heads, groups, ffn = shape
    return Model(
        name, layers, hidden, heads, 4096, vocabulary, kv_groups=groups, ffn=ffn, head_size=128,
        tied=False, positions="rotary", activation="swiglu", norm="rmsnorm", bias=False,
        pad_vocabulary_to=1,
    )  # fmt: skip


# Multi-head latent attention counts as ordinary attention with the same number of parameters.
LATENT = _decoder("deepseek-v3", (61, 7168, 128, 1, 2048), 129280).but(head_size=101)
MIXTURES: dict[str, Mixture] = {
    mixture.name: mixture
    for mixture in (
        Mixture(_decoder("mixtral-8x7b", (32, 4096, 32, 8, 14336), 32000), 8, 2),
        Mixture(_decoder("mixtral-8x22b", (56, 6144, 48, 8, 16384), 32768), 8, 2),
        Mixture(_decoder("qwen3-30b-a3b", (48, 2048, 32, 4, 768), 151936), 128, 8),
        Mixture(_decoder("qwen3-235b-a22b", (94, 4096, 64, 4, 1536), 151936), 128, 8),
        Mixture(LATENT, 256, 8, shared=1, dense_layers=3),
    )
}


def mixture(name: str) -> Mixture:
    """Return a mixture of the table by name."""
    return named("mixture", name, MIXTURES)
