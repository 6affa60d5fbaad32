"""Models of the lessons, by name."""

from __future__ import annotations

from course_lib.mistakes.arguments import explained
from course_lib.plan.checks import named
from course_lib.plan.shapes.model import Experts, Latent, Model, Patches
from course_lib.words import _


def _gpt(name: str, layers: int, hidden: int, heads: int, sequence: int = 2048) -> Model:
    return Model(name, layers, hidden, heads, sequence, vocabulary=50257)


def _llama(name: str, shape: tuple[int, int, int, int, int], vocabulary: int = 128256) -> Model:
    """Build a model from `shape`: layers, hidden, heads, key-value groups, feed-forward width."""
    layers, hidden, heads, groups, ffn = shape
    return Model(
        name,
        layers,
        hidden,
        heads,
        8192 if vocabulary == 128256 else 4096,
        vocabulary,
        kv_groups=groups,
        ffn=ffn,
        tied=layers < 32,
        positions="rotary",
        activation="swiglu",
        norm="rmsnorm",
        bias=False,
        pad_vocabulary_to=1,
    )


def _mixture(
    name: str,
    shape: tuple[int, int, int, int, int],
    vocabulary: int,
    experts: Experts,
    latent: Latent | None = None,
) -> Model:
    """Build a mixture from `shape`: layers, hidden, heads, key-value groups, one expert's width."""
    model = _llama(name, shape, vocabulary)
    return model.but(
        tied=False, experts=experts, latent=latent, head_size=192 if latent else 128, sequence=4096
    )


PRESETS: dict[str, Model] = {
    model.name: model
    for model in (
        # Model of the course's lab: 2 nodes × 2 devices, GPT-2 vocabulary.
        _gpt("lab", 12, 768, 32, sequence=1024),
        _gpt("gpt2", 12, 768, 12, sequence=1024),
        # Sizes that the box can train in a short time.
        Model("tiny", 4, 128, 4, 128, vocabulary=8192),
        Model("small", 4, 256, 8, 256, vocabulary=50304),
        # The worked case of row B5: 18.4 B.
        _gpt("18b", 40, 6144, 48, sequence=1024),
        # The benchmark.
        _gpt("13b", 40, 5120, 32),
        _gpt("175b", 96, 12288, 96),
        # Larger ones of arXiv 2104.04473 (Table 1).
        _gpt("530b", 105, 20480, 128),
        _gpt("1t", 128, 25600, 160),
        # Llama 3 (arXiv 2407.21783, Table 3, and the 3.2 model cards).
        _llama("llama-1b", (16, 2048, 32, 8, 8192)),
        _llama("llama-3b", (28, 3072, 24, 8, 8192)),
        _llama("llama-8b", (32, 4096, 32, 8, 14336)),
        _llama("llama-70b", (80, 8192, 64, 8, 28672)),
        _llama("llama-405b", (126, 16384, 128, 8, 53248)),
        # Width and depth of the 70 B, with one key head per head: 80 B.
        _llama("llama-80b", (80, 8192, 64, 64, 28672), vocabulary=131072),
        # Mixtures of experts, from the configurations published with their weights.
        _mixture("mixtral-8x7b", (32, 4096, 32, 8, 14336), 32000, Experts(8, 2)),
        _mixture("mixtral-8x22b", (56, 6144, 48, 8, 16384), 32768, Experts(8, 2)),
        _mixture("qwen3-30b-a3b", (48, 2048, 32, 4, 768), 151936, Experts(128, 8)),
        _mixture("qwen3-235b-a22b", (94, 4096, 64, 4, 1536), 151936, Experts(128, 8)),
        _mixture(
            "deepseek-v3",
            (61, 7168, 128, 128, 2048),
            129280,
            Experts(256, 8, 1, dense_layers=3, dense_ffn=18432, groups=8, token_groups=4),
            Latent(512, 64, 128, 1536),
        ),
        # Weather: 20 fields of 720 × 1440 points, patches of 8.
        Model("vit-weather", 12, 384, 8, 1, patches=Patches(720, 1440, 8, 20, 20)),
    )
}


@explained("plan.preset", only_failures=True, whatever=True)
def preset(name: str) -> Model:
    """Return the model of this name."""
    return named(_("model preset"), name, PRESETS)
