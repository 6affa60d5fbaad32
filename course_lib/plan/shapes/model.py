"""Shape of a model, from which everything else is computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from course_lib.mistakes.arguments import explained_methods
from course_lib.mistakes.names import answers_misspelt
from course_lib.plan.checks import (
    MOST_PARTS,
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


@answers_misspelt
@explained_methods("model", "__init__", only_failures=True)
@dataclass(frozen=True)
class Model:
    """Decoder (GPT, Llama) or, with `patches`, ViT. Zero for `kv_groups`, `ffn` or `head_size`
    means the usual value: as many groups as heads, 4 × hidden (SwiGLU: 8/3 × hidden, rounded up to
    a multiple of 256), hidden / heads."""

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

    def __post_init__(self) -> None:
        keep_whole(self, "layers", most=MOST_PARTS)
        keep_whole(self, "hidden", "heads", "sequence", "pad_vocabulary_to")
        keep_whole(self, "kv_groups", "ffn", "head_size", "vocabulary", least=0)
        expect(str, "name", self.name, '"13b"')
        keep_flags(self, "tied", "bias")
        if self.patches is not None:
            expect(Patches, "patches", self.patches, "plan.Patches(720, 1440, 8, 20, 20)")
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
    def query_width(self) -> int:
        return self.heads * self.head_size

    @property
    def kv_width(self) -> int:
        """Return the width of the keys; the values have the same width."""
        return self.kv_groups * self.head_size

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
