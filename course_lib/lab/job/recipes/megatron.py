"""Flags that Megatron-LM's own program needs and the course's program does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from course_lib.lab.errors import RecipeError, listed
from course_lib.lab.job.recipes.keywords import flag_of, known_flags
from course_lib.plan import Layout, Model
from course_lib.plan.shapes.layout import LINEAR_PRECISIONS
from course_lib.plan.shapes.stages import layers_of_stages
from course_lib.words import _

# Defaults of the course's program that Megatron-LM does not have.
DEFAULTS = {
    "lr": 1e-3, "hidden_dropout": 0, "attention_dropout": 0, "tokenizer_type": "GPT2BPETokenizer",
}  # fmt: skip
# Flags of linear layers in 8 and 4 bits.
NARROW: dict[str, dict[str, Any]] = {
    "fp8": {"fp8_format": "hybrid", "fp8_recipe": "tensorwise"},
    "mxfp8": {"fp8_format": "e4m3", "fp8_recipe": "mxfp8"},
    "nvfp4": {"fp4_format": "e2m1", "fp4_recipe": "nvfp4"},
}
CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"


def flags_for(flags: Mapping[str, Any], layout: Layout, vocabulary: int) -> dict[str, Any]:
    """Return the flags of the course's program, and further flags that Megatron-LM needs."""
    more: dict[str, Any] = dict(DEFAULTS)
    if flags.get("mock_data"):  # without text, no tokenizer files exist
        more |= {"tokenizer_type": "NullTokenizer", "vocab_size": vocabulary}
    if flags.get("save"):
        more["save_interval"] = flags["train_iters"]
    if layout.zero == 3:  # FSDP owns the gradients, so no kernel may add to them itself
        more["no_gradient_accumulation_fusion"] = True
    found = more | dict(flags)
    if problems := [*_refused(found, layout)]:
        raise RecipeError(
            _("Megatron-LM's program refuses this: {problems}", problems=listed(problems))
        )
    return found


def planned_flags(layout: Layout, shape: Model) -> dict[str, Any]:
    """Return the flags of a planned layout that the course's program does not have."""
    flags: dict[str, Any] = {"use_flash_attn": layout.flash}
    flags["mtp_num_layers"] = shape.mtp_layers or None
    if layout.precision in LINEAR_PRECISIONS:
        flags |= {"bf16": True} | NARROW[layout.precision]
    if shape.experts:
        flags |= {"moe_grouped_gemm": True, "moe_token_dispatcher_type": "alltoall"}
        limit, groups = shape.experts.token_groups or None, shape.experts.groups
        flags |= {"moe_router_group_topk": limit, "moe_router_num_groups": limit and groups}
    if layout.stages == "ends-count":
        flags["account_for_embedding_in_pipeline_split"] = True
        flags["account_for_loss_in_pipeline_split"] = True
    elif layout.stages != "even":
        flags["pipeline_model_parallel_layout"] = _stages_text(layout, shape)
    if layout.virtual > 1 and layout.stages == "ends-count":
        flags["num_layers_per_virtual_pipeline_stage"] = None
        flags["num_virtual_stages_per_pipeline_rank"] = layout.virtual
    return flags


def _stages_text(layout: Layout, shape: Model) -> str:
    """Return the stages as Megatron-LM writes them: embedding, layers, MTP layers and loss, such as
    "Ettt|ttt|ttmL"."""
    further = shape.mtp_layers  # a list of the user does not count them
    layers = layout.stages if isinstance(layout.stages, tuple) else layers_of_stages(shape, layout)
    text = "|".join("t" * count for count in layers)
    text = text[: len(text) - further] if sum(layers) > shape.layers else text
    return f"E{text}{'m' * further}L"


def _refused(flags: Mapping[str, Any], layout: Layout) -> Iterator[str]:
    """Yield problems that no further flag could solve, each with a solution."""
    if layout.zero == 3 and not flags.get("untie_embeddings_and_output_weights"):
        yield _(
            "zero 3 with an output matrix that is also the token embedding; give "
            "untie_embeddings_and_output_weights=True, or use zero 1"
        )
    if layout.zero == 3 and layout.precision == "fp16":
        yield _('zero 3 in fp16; use precision="bf16" or zero 1')
    given = [flag_of(name) for name, value in flags.items() if value not in (None, False)]
    if strange := [flag for flag in given if flag in known_flags()["ours"]]:
        yield _(
            "{strange}, which is a flag of the course's program only; leave it out or use the "
            "course's program",
            strange=", ".join(strange),
        )


def environment_for(layout: Layout, given: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment, with one work queue per device if needed. One queue keeps
    communication in its place between the kernels. Before Blackwell, Megatron-LM needs it whenever
    tensor or context ranks communicate. FSDP is the exception: it needs several queues."""
    own = {name: str(value) for name, value in given.items()}
    talking = layout.zero != 3 and (layout.tensor > 1 or layout.context > 1)
    return {CONNECTIONS: "1"} | own if talking else own
