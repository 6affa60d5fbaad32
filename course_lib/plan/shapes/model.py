"""Shape of a model, from which everything else is computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from course_lib.mistakes.arguments import explained_methods
from course_lib.mistakes.names import suggests_similar_names
from course_lib.plan.checks import (
    MOST_PARTS,
    PlanError,
    divides,
    expect,
    keep_flags,
    keep_whole,
    one_of,
    whole_number,
)
from course_lib.words import _

POSITIONS = ("learned", "rotary", "alibi", "none")
ACTIVATIONS = ("gelu", "swiglu")
NORMS = ("layernorm", "rmsnorm")


@dataclass(frozen=True)
class Patches:
    """Image of a ViT, cut into patches, which replace the tokens of a vocabulary."""

    height: int
    width: int
    size: int
    in_channels: int
    out_channels: int

    def __post_init__(self) -> None:
        keep_whole(self, "height", "width", "size", "in_channels", "out_channels", of="patches.")
        divides(_("patch size"), self.size, _("image height"), self.height)
        divides(_("patch size"), self.size, _("image width"), self.width)

    @property
    def count(self) -> int:
        return (self.height // self.size) * (self.width // self.size)


@dataclass(frozen=True)
class Experts:
    """Experts of a mixture: `count` MLPs of the model's `ffn` in one layer. A router sends each
    token to `per_token` of them; every token also passes the `shared` ones. The first
    `dense_layers` have one MLP of width `dense_ffn` instead (0: as wide as all experts that a
    token passes), and so do the later layers except every `every`-th one. A token's experts lie in
    at most `token_groups` of `groups` equal groups (0: in any)."""

    count: int
    per_token: int
    shared: int = 0
    dense_layers: int = 0
    dense_ffn: int = 0
    every: int = 1
    groups: int = 1
    token_groups: int = 0

    def __post_init__(self) -> None:
        keep_whole(self, "count", "per_token", "every", "groups", of="experts.")
        unset = ("shared", "dense_layers", "dense_ffn", "token_groups")
        keep_whole(self, *unset, least=0, of="experts.")
        divides("experts.groups", self.groups, "experts.count", self.count)
        keep_whole(self, "token_groups", least=0, most=self.groups, of="experts.")
        reached = round(self.count * self.group_share)
        if self.per_token > reached:
            text = _("per_token {per_token} is more than the {count} experts; use at most {count}",
                     per_token=self.per_token, count=reached)  # fmt: skip
            raise PlanError(text)

    @property
    def group_share(self) -> float:
        """Return the share of the groups from which a token's experts come."""
        return self.token_groups / self.groups if self.token_groups else 1.0

    @property
    def passed(self) -> int:
        """Return the experts that one token passes in a layer."""
        return self.per_token + self.shared


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention: a token's keys and values of all heads are computed from one
    vector of `kv_rank` numbers, and queries from one of `query_rank` (0: from the hidden state).
    Each head's queries and keys have `rotary_size` numbers with positions, with the same keys for
    all heads; values have `value_size`."""

    kv_rank: int
    rotary_size: int
    value_size: int
    query_rank: int = 0

    def __post_init__(self) -> None:
        keep_whole(self, "kv_rank", "rotary_size", "value_size", of="latent.")
        keep_whole(self, "query_rank", least=0, of="latent.")


class Matrix(NamedTuple):
    """Matrix of attention: `split` is the dimension that tensor ranks divide, or ""."""

    inputs: int
    outputs: int
    split: str


@suggests_similar_names
@explained_methods("model", "__init__", only_failures=True)
@dataclass(frozen=True)
class Model:
    """Decoder (GPT, Llama), mixture with `experts`, or with `patches` ViT. Zero for `kv_groups`,
    `ffn` or `head_size` means the usual value: as many groups as heads, 4 × hidden (SwiGLU:
    8/3 × hidden, rounded up to a multiple of 256), hidden / heads. `ffn` is one expert's width.
    In `windowed` layers (0: all), a token attends to itself and the `window` - 1 tokens before it
    (0: to all). None for `dropout` means only with learned positions, as in GPT-3. The
    `mtp_layers` follow the other layers, and each predicts one further token with the same head
    (multi-token prediction, as in DeepSeek-V3); 0 trains without them."""

    name: str
    layers: int
    hidden: int
    heads: int
    sequence: int
    vocabulary: int = 50257
    kv_groups: int = 0
    ffn: int = 0
    head_size: int = 0
    tied: bool = True
    positions: str = "learned"
    activation: str = "gelu"
    norm: str = "layernorm"
    bias: bool = True
    pad_vocabulary_to: int = 128
    patches: Patches | None = None
    experts: Experts | None = None
    latent: Latent | None = None
    dropout: bool | None = None
    window: int = 0
    windowed: int = 0
    mtp_layers: int = 0

    def __post_init__(self) -> None:
        keep_whole(self, "layers", most=MOST_PARTS)
        keep_whole(self, "hidden", "heads", "sequence", "pad_vocabulary_to")
        keep_whole(self, "kv_groups", "ffn", "head_size", "vocabulary", least=0)
        keep_whole(self, "window", "windowed", least=0)
        keep_whole(self, "mtp_layers", least=0, most=MOST_PARTS)
        if self.windowed > self.layers:
            text = _("windowed {windowed} is more than the {layers} layers; use at most {layers}",
                     windowed=self.windowed, layers=self.layers)  # fmt: skip
            raise PlanError(text)
        expect(str, "name", self.name, '"13b"')
        keep_flags(self, "tied", "bias", *(["dropout"] if self.dropout is not None else []))
        if self.patches is not None:
            expect(Patches, "patches", self.patches, "plan.Patches(720, 1440, 8, 20, 20)")
        if self.experts is not None:
            expect(Experts, "experts", self.experts, "plan.Experts(8, 2)")
            if self.experts.dense_layers >= self.layers:
                text = _("dense_layers {dense_layers} of {layers} leaves no layer with "
                         "experts; use fewer", dense_layers=self.experts.dense_layers,
                         layers=self.layers)  # fmt: skip
                raise PlanError(text)
        if self.latent is not None:
            expect(Latent, "latent", self.latent, "plan.Latent(512, 64, 128, 1536)")
        one_of("positions", self.positions, POSITIONS)
        one_of("activation", self.activation, ACTIVATIONS)
        one_of("norm", self.norm, NORMS)
        self._fill("kv_groups", self.heads)
        self._fill("ffn", self._usual_ffn())
        if not self.head_size:
            divides("heads", self.heads, "hidden", self.hidden)
        self._fill("head_size", self.hidden // self.heads)
        divides("kv_groups", self.kv_groups, "heads", self.heads)
        if self.patches is not None:
            object.__setattr__(self, "sequence", self.patches.count)
            object.__setattr__(self, "vocabulary", 0)
        else:
            whole_number("vocabulary", self.vocabulary)

    def _fill(self, name: str, value: int) -> None:
        if getattr(self, name) == 0:
            object.__setattr__(self, name, value)

    def _usual_ffn(self) -> int:
        if self.activation == "gelu":
            return 4 * self.hidden
        return -(-8 * self.hidden // 3 // 256) * 256

    @property
    def causal(self) -> bool:
        return self.patches is None

    @property
    def has_dropout(self) -> bool:
        return self.positions == "learned" if self.dropout is None else self.dropout

    @property
    def attended_share(self) -> float:
        """Return the share of earlier tokens that attention uses, as a mean over the layers."""
        if not 0 < self.window < self.sequence:
            return 1.0
        pairs = self.window * (2 * self.sequence - self.window + 1)
        kept = pairs / (self.sequence * (self.sequence + 1))
        return 1 - (self.windowed or self.layers) / self.layers * (1 - kept)

    @property
    def query_width(self) -> int:
        return self.heads * self.head_size

    @property
    def value_size(self) -> int:
        return self.latent.value_size if self.latent else self.head_size

    @property
    def context_width(self) -> int:
        """Return the width of attention's result, before its output matrix."""
        return self.heads * self.value_size

    @property
    def kv_width(self) -> int:
        """Return the width of keys and values together."""
        return self.kv_groups * (self.head_size + self.value_size)

    @property
    def attention_matrices(self) -> tuple[Matrix, ...]:
        """Return attention's matrices: queries, keys and values in one, then the output. Latent
        attention first computes its short vectors on every tensor rank."""
        out = Matrix(self.context_width, self.hidden, "inputs")
        latent = self.latent
        if latent is None:
            return Matrix(self.hidden, self.query_width + self.kv_width, "outputs"), out
        grown = self.heads * (self.head_size - latent.rotary_size + latent.value_size)
        keys = (
            Matrix(self.hidden, latent.kv_rank + latent.rotary_size, ""),
            Matrix(latent.kv_rank, grown, "outputs"),
        )
        if not latent.query_rank:
            return Matrix(self.hidden, self.query_width, "outputs"), *keys, out
        queries = (
            Matrix(self.hidden, latent.query_rank, ""),
            Matrix(latent.query_rank, self.query_width, "outputs"),
        )
        return *queries, *keys, out

    @property
    def dense_ffn(self) -> int:
        """Return the width of the MLP in layers without experts."""
        if self.experts is None:
            return self.ffn
        return self.experts.dense_ffn or self.experts.passed * self.ffn

    def has_experts(self, layer: int) -> bool:
        """Tell whether this layer, counted from 0, has experts."""
        experts = self.experts
        if experts is None or layer < experts.dense_layers:
            return False
        return (layer + 1) % experts.every == 0

    @property
    def all_layers(self) -> int:
        return self.layers + self.mtp_layers

    @property
    def expert_layers(self) -> int:
        return sum(map(self.has_experts, range(self.all_layers))) if self.experts else 0

    @property
    def heads_of_loss(self) -> int:
        """Return how often logits are computed: once for each token that is predicted."""
        return 1 + self.mtp_layers

    def padded_vocabulary(self, tensor: int = 1) -> int:
        """Return the rows of the embedding: rounded up so that each tensor rank holds a whole
        number of blocks of `pad_vocabulary_to` rows."""
        block = self.pad_vocabulary_to * tensor
        return -(-self.vocabulary // block) * block

    def but(self, **changes: Any) -> Model:
        """Return the model with some values changed; default values are computed again."""
        if {"hidden", "heads", "activation"} & set(changes):
            usual = {"kv_groups": self.heads, "ffn": self._usual_ffn()}
            usual["head_size"] = self.hidden // self.heads
            for name, value in usual.items():
                if getattr(self, name) == value:
                    changes.setdefault(name, 0)
        return replace(self, **changes)
