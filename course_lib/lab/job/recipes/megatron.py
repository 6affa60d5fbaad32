"""What Megatron-LM's own program asks for where ours does not, so that its validation passes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from course_lib.lab.errors import RecipeError, listed
from course_lib.plan import Layout
from course_lib.plan.numbers import real, whole

DEFAULTS = {
    "lr": 1e-3, "hidden_dropout": 0, "attention_dropout": 0, "tokenizer_type": "GPT2BPETokenizer",
}  # fmt: skip
"""What our program takes without being told, and Megatron-LM does not."""
CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"


def flags_for(flags: Mapping[str, Any], layout: Layout, vocabulary: int) -> dict[str, Any]:
    """The flags of our program, and over them what Megatron-LM wants to be told as well."""
    more: dict[str, Any] = dict(DEFAULTS)
    if flags.get("mock_data"):  # no text, so no files of a tokenizer
        more |= {"tokenizer_type": "NullTokenizer", "vocab_size": vocabulary}
    if flags.get("save"):
        more["save_interval"] = flags["train_iters"]
    if layout.zero == 3:  # FSDP owns the gradients, so no kernel may add to them on its own
        more["no_gradient_accumulation_fusion"] = True
    found = more | dict(flags)
    if problems := _refused(found, layout):
        raise RecipeError(f"Megatron-LM's program refuses this: {listed(problems)}")
    return found


def environment_for(layout: Layout, given: Mapping[str, Any]) -> dict[str, str]:
    """One queue of work per device keeps communication in its place between the kernels. Before
    Blackwell, Megatron-LM wants that wherever tensor or context ranks talk, except with FSDP,
    which wants several queues."""
    own = {name: str(value) for name, value in given.items()}
    if layout.zero == 3:
        if own.get(CONNECTIONS) == "1":
            raise RecipeError(
                f"Megatron-LM's program refuses this: zero 3 needs more than one queue per device; "
                f"leave {CONNECTIONS} out of the environment"
            )
        return own
    return {CONNECTIONS: "1"} | own if layout.tensor > 1 or layout.context > 1 else own


def _refused(flags: Mapping[str, Any], layout: Layout) -> list[str]:
    """What no further flag would cure; with what would."""
    found = []
    if layout.zero == 3 and not flags.get("untie_embeddings_and_output_weights"):
        found.append(
            "zero 3 with an output matrix that is the word embedding's; give "
            "untie_embeddings_and_output_weights=True, or use zero 1"
        )
    if layout.zero == 3 and layout.precision == "fp16":
        found.append('zero 3 in fp16; use precision="bf16" or zero 1')
    minutes = flags.get("exit_duration_in_mins")
    if minutes is not None and not (real(minutes) or 0.5).is_integer():
        up = math.ceil(real(minutes) or 1)
        found.append(f"exit_duration_in_mins {minutes} is not a whole number; use {up}")
    memory, lines = (whole(flags.get(name)) for name in ("log_memory_interval", "log_interval"))
    if memory and lines and memory % lines:
        found.append(
            f"log_memory_interval {memory} is not a multiple of log_interval {lines}; use {lines} "
            f"or give log_interval={memory}"
        )
    return found
