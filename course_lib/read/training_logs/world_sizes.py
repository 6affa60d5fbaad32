"""Sizes, precision and arguments of a run, put together from the lines that state them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from course_lib.read.training_logs.result import World

USING = re.compile(rb"using world size: *(\d{1,9})([^\n]{0,500})")
_SIZE = re.compile(rb"([a-z][a-z \-]{0,60}?)[- ]sizes?: *(\d{1,9})")
_PRECISION = re.compile(rb"using (?:torch\.)?([a-z]+\d+\w*) for parameters")
_MICRO = re.compile(rb"setting number of micro-?batches to (?:constant )?(\d{1,9})")
_ARGUMENT = re.compile(rb"([A-Za-z_][A-Za-z0-9_\-]{0,80}) ?\.{3,} ?([^\n]{0,300})")
_PRINTED_SIZE = {
    "data": ("data-parallel", "data"),
    "tensor": ("tensor-model-parallel", "model-parallel", "tensor-parallel", "tensor"),
    "pipeline": ("pipeline-model-parallel", "pipeline-parallel", "pipeline"),
    "context": ("context-parallel", "context"),
    "sequence": ("sequence-parallel", "sequence"),
    "expert": ("expert-model-parallel", "expert-parallel", "expert"),
}
_ARGUMENT_SIZE = {
    "world_size": "world_size",
    "data": "data_parallel_size",
    "tensor": "tensor_model_parallel_size",
    "pipeline": "pipeline_model_parallel_size",
    "context": "context_parallel_size",
    "expert": "expert_model_parallel_size",
}
_OTHER_WORLD = re.compile(rb"dist_world_size=(\d{1,9})|\bworld_size[=:] ?(\d{1,9})")
MOST_ARGUMENTS = 5000


@dataclass
class WorldFinder:
    sizes: dict[str, int] = field(default_factory=dict)
    fallback_size: int | None = None
    precision: str | None = None
    micro_batches: int | None = None
    arguments: dict[str, str] = field(default_factory=dict)
    software: str | None = None

    def line(self, text: bytes) -> None:
        """Any line that may state something; later statements win."""
        if match := USING.search(text):
            self.sizes = {"world_size": int(match[1]), **_sizes(match[2])}
        if match := _PRECISION.search(text):
            self.precision = match[1].decode()
        if match := _MICRO.search(text):
            self.micro_batches = int(match[1])
        if match := _OTHER_WORLD.search(text):
            self.fallback_size = int(match[1] or match[2])

    def argument(self, text: bytes) -> bool:
        """A line of Megatron's table of arguments: `name ....... value`."""
        match = _ARGUMENT.search(text)
        if match is None:
            return False
        if len(self.arguments) < MOST_ARGUMENTS:
            self.arguments[match[1].decode()] = match[2].decode("utf-8", "replace").strip()
        return True

    def world(self, nodes: tuple[str, ...]) -> World:
        sizes: dict[str, int] = {}
        for name, argument in _ARGUMENT_SIZE.items():
            if (value := self.arguments.get(argument, "")).isdecimal():
                sizes[name] = int(value[:9])
        if self.fallback_size is not None:
            sizes.setdefault("world_size", self.fallback_size)
        sizes |= self.sizes
        _complete(sizes)
        return World(
            **sizes,
            precision=self.precision or self._precision_argument(),
            micro_batches=self.micro_batches,
            nodes=nodes,
            software=self.software,
        )

    def _precision_argument(self) -> str | None:
        dtype = self.arguments.get("params_dtype", "")
        return dtype.removeprefix("torch.") or None


def _sizes(text: bytes) -> dict[str, int]:
    found: dict[str, int] = {}
    for match in _SIZE.finditer(text):
        printed = match[1].decode().strip(" -,").removeprefix("and ").strip()
        for name, forms in _PRINTED_SIZE.items():
            if printed in forms:
                found[name] = int(match[2])
    return found


def _complete(sizes: dict[str, int]) -> None:
    """The data-parallel size follows from the others where the oldest logs leave it out."""
    if "data" in sizes or "world_size" not in sizes or "tensor" not in sizes:
        return
    model = sizes["tensor"] * sizes.get("pipeline", 1) * sizes.get("context", 1)
    if model and sizes["world_size"] % model == 0:
        sizes["data"] = sizes["world_size"] // model
