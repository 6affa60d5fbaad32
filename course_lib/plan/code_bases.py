"""Code bases: what distinguishes programs in time and memory. Each program family has one `Stack`;
its numbers count what the program keeps or sends, and a few are measured times."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from course_lib.plan.checks import keep_flags, keep_numbers, keep_texts, letters, named, one_of
from course_lib.plan.shapes.model import Model
from course_lib.words import _

FLASH_KERNELS = ("flash1", "flash2", "cudnn")


@dataclass(frozen=True)
class Stack:
    """Time and memory constants of a program. `host_*_ms` are times of the Python thread that
    launches kernels; a layer is never faster. `*_bytes` are per parameter or logit."""

    name: str
    # Name of the program if this entry is one version of it; versions share the measured runs.
    program: str = ""
    # Time to launch one layer. Each further tensor rank adds `host_tensor_share`, as all ranks must
    # arrive; a pipeline over several nodes adds `host_contended_ms` per tensor rank.
    host_forward_ms: float = 1.0
    host_backward_ms: float = 1.5
    host_tensor_share: float = 0.03
    host_contended_ms: float = 0.0
    # Time to launch a softmax in single kernels. Megatron's fused one computes four matrices of
    # scores at once, and is not used if their number is no multiple of four.
    host_softmax_ms: float = 0.0
    # Time to launch a layer's router, exchange and experts in forward.
    host_expert_ms: float = 2.5
    iteration_ms: float = 10.0  # loss, norm, logging and data, once per iteration
    # Traffic of pointwise operations relative to unfused kernels that read and write everything.
    pointwise: float = 1.0
    flash_kernel: str = "flash2"
    # Year of the matmul libraries: newer libraries run faster on a new device.
    libraries: int = 2024
    dropout: bool = False  # if the model has dropout at all
    # Share of a transfer that computation hides (data_overlap: of computation that can hide one).
    tensor_overlap_forward: float = 0.0
    tensor_overlap: float = 0.0
    data_overlap: float = 0.0
    pipeline_overlap: float = 0.0
    # Share of the exchange with experts that another micro-batch's computation hides.
    exchange_overlap: float = 0.0
    # Activations between stages are sent in `tensor` pieces and gathered on arrival.
    scattered_sends: bool = False
    # The course's own program, whose memory is counted buffer by buffer (memory/course_program.py).
    counted: bool = False
    # Bytes per parameter.
    weight_bytes: float = 2.0
    gradient_bytes: float = 4.0
    # Gradients of a model in fp16 are kept and summed in two bytes.
    sums_in_fp16: bool = False
    gradient_sent_bytes: float = 4.0
    # ZeRO-1's all-gather of weights runs beside the next forward, not before it.
    gather_overlap: bool = False
    # Factor by which ZeRO-1's all-gather of weights takes longer than its bytes alone explain.
    gather_slowness: float = 1.0
    # Host time to gather a layer's parameters or scatter its gradients (ZeRO-3): hooks, and copies
    # into and out of the communication buffers.
    host_sharded_ms: float = 0.0
    # Most GB/s at which a rank gathers or scatters a layer (ZeRO-3); 0 is the rate of the links.
    sharded_gb_per_s: float = 0.0
    # A reduce-scatter is an all-reduce of the whole, as in gloo.
    scatters_by_reducing: bool = False
    optimizer_bytes: float = 12.0
    optimizer_moved_bytes: float = 50.0
    # Bytes moved per micro-batch to add gradients to their sum; 0 if the matmul itself adds.
    accumulated_bytes: float = 0.0
    # Bytes per logit that are allocated at once in forward and backward of the loss.
    logit_bytes: float = 6.3
    # Share of the tensors saved by norms and residuals that every tensor rank holds whole.
    whole_share: float = 1.0
    # Bytes per logit that forward and backward of the loss move through memory.
    logit_moved_bytes: float = 40.0
    # With sequence parallelism, matmuls keep their gathered inputs instead of gathering them again.
    keeps_gathered: bool = False
    # Context ranks gather and keep all keys and values instead of passing them round a ring.
    gathers_keys: bool = False
    # Copies that a layer's unfused operations save in addition, in units of tokens × hidden ×
    # element bytes, divided among tensor ranks.
    copied_widths: float = 0.0
    # Hidden states of each routed token that the return from its expert saves.
    returned_widths: float = 0.0
    # Working memory, independent of the depth, in units of tokens × hidden × element bytes.
    working_widths: float = 4.0
    workspace_gib: float = 0.1
    # Share of the layers whose activations wait in host memory for the backward pass. Computation
    # is assumed to hide the transfers, as if CPU and GPU share a board (GB200).
    offloaded_share: float = 0.0
    # Share by which the caching allocator reserves more than is allocated.
    reserve_share: float = 0.05

    def __post_init__(self) -> None:
        keep_texts(self, "name", "program")
        object.__setattr__(self, "program", self.program or self.name)
        kinds = {entry.name: type(entry.default) for entry in fields(self)}
        keep_flags(self, *(name for name, kind in kinds.items() if kind is bool))
        keep_numbers(self, *(name for name, kind in kinds.items() if kind in (int, float)))
        shares = ("tensor_overlap_forward", "tensor_overlap", "data_overlap", "pipeline_overlap")
        keep_numbers(self, *shares, "exchange_overlap", "whole_share", "offloaded_share", most=1)
        one_of("flash_kernel", self.flash_kernel, FLASH_KERNELS)

    def drops(self, model: Model) -> bool:
        """Return whether the program drops activations of this model and keeps their masks."""
        return self.dropout and model.has_dropout


# Megatron-Core since 2024: cuDNN attention, and communication overlap in all dimensions.
MEGATRON_CORE = Stack(
    "megatron-core",
    program="megatron-core",
    libraries=2025,
    flash_kernel="cudnn",
    tensor_overlap_forward=0.8,
    tensor_overlap=0.8,
    data_overlap=0.9,
    gather_overlap=True,
    pipeline_overlap=0.5,
    sums_in_fp16=True,
)
# Since 2025, its loss overwrites the logits in 16 bits with their gradients (TransformerEngine).
NEMO = replace(MEGATRON_CORE, name="nemo", gradient_bytes=2, gradient_sent_bytes=2, logit_bytes=2.0)

STACKS: dict[str, Stack] = {
    stack.name: stack
    for stack in (
        Stack(
            "megatron-2021",
            dropout=True,
            scattered_sends=True,
            gradient_sent_bytes=2,
            host_forward_ms=1.0,
            host_backward_ms=1.5,
            host_softmax_ms=0.35,
        ),
        Stack(
            "megatron-2020",
            dropout=True,
            gradient_sent_bytes=2,
            pointwise=2,
            host_softmax_ms=0.35,
        ),
        # ZeRO-3 of 2021 waited for each gather and copied its result: it took 0.42 s for 10.2 GB on
        # 8 A100 behind NVLink (DeepSpeed's issue 1174: 5.1 B parameters, 0.48 s instead of 0.06 s).
        # Its fused kernels and its loss were fitted to one half of vTrain's runs on one node. Its
        # fused optimizer is the time that each layer adds once an iteration (33 to 34 bytes if the
        # width is 2048): it reads and writes three 4-byte values, a gradient and a weight.
        Stack(
            "megatron-deepspeed",
            dropout=True,
            gradient_sent_bytes=2,
            gradient_bytes=6,
            logit_bytes=10,
            scattered_sends=True,
            host_forward_ms=0.95,
            host_backward_ms=1.4,
            host_tensor_share=0.02,
            host_softmax_ms=0.35,
            pointwise=0.7,
            logit_moved_bytes=48,
            sharded_gb_per_s=24,
            iteration_ms=5,
            optimizer_moved_bytes=33,
        ),
        # Megatron of 2023: sequence parallelism and FlashAttention, but no fused layers yet.
        Stack(
            "megatron-2023",
            dropout=True,
            host_softmax_ms=0.35,
            tensor_overlap=0.4,
            flash_kernel="flash1",
            pointwise=1.3,
        ),
        MEGATRON_CORE,
        # The published program, with older libraries than NVIDIA's own releases.
        replace(MEGATRON_CORE, name="megatron-lm", libraries=2024),
        # NeMo and Megatron-Bridge: their releases keep and sum gradients in bf16.
        NEMO,
        # Recipes since release 26.06 for mixtures in MXFP8: one CUDA graph launches an iteration,
        # and two micro-batches in turn hide each other's exchange.
        replace(
            NEMO,
            name="nemo-graphed",
            host_forward_ms=0,
            host_backward_ms=0,
            host_expert_ms=0,
            exchange_overlap=0.9,
        ),
        # Its sweep's script overlaps tensor communication: of the two transfers of backward, the
        # reduce-scatter runs beside the matmul of the weights' gradients.
        Stack(
            "nanotron",
            libraries=2023,
            tensor_overlap=0.5,
            host_forward_ms=1.6,
            host_backward_ms=2.3,
            host_tensor_share=0.02,
            host_contended_ms=2.15,
            accumulated_bytes=14,
            gather_slowness=4,
            logit_moved_bytes=58,
            pointwise=0.8,
            pipeline_overlap=0.5,
            gradient_bytes=6,
            logit_bytes=11.5,
            whole_share=1 / 3,
            copied_widths=6,
            reserve_share=0.04,
        ),
        Stack(
            "fsdp",
            data_overlap=0.9,
            gradient_sent_bytes=2,
            flash_kernel="flash1",
            weight_bytes=4,
            optimizer_bytes=8,
        ),
        Stack(
            "llm-foundry",
            libraries=2023,
            data_overlap=0.9,
            gradient_sent_bytes=4,
            gradient_bytes=4,
            flash_kernel="flash1",
            weight_bytes=4,
            optimizer_bytes=8,
        ),
        Stack(
            "torchtitan",
            data_overlap=0.8,
            tensor_overlap=0.3,
            logit_moved_bytes=30,
            weight_bytes=4,
            optimizer_bytes=8,
        ),
        # A compiled single-model training loop: nanoGPT, llm.c.
        Stack("single-file", libraries=2023, data_overlap=0.8, pointwise=0.6, logit_moved_bytes=20),
        Stack(
            "course",
            counted=True,
            host_forward_ms=0.4,
            host_backward_ms=0.6,
            host_sharded_ms=1.5,
            iteration_ms=2,
            optimizer_moved_bytes=36,
            scatters_by_reducing=True,
            keeps_gathered=True,
            gathers_keys=True,
            workspace_gib=0,
            reserve_share=0,
        ),
        # Typical values for a program of which nothing is known.
        Stack("unknown"),
    )
}


# Part of a program's name in lower case without punctuation → its entry. The first match counts.
KIN = (
    ("deepspeed", "megatron-deepspeed"),
    ("neox", "megatron-deepspeed"),
    ("nemo", "nemo"),
    ("bridge", "nemo"),
    ("megatroncore", "megatron-core"),
    ("megatron", "megatron-lm"),
    ("llmfoundry", "llm-foundry"),
    ("composer", "llm-foundry"),
    ("titan", "torchtitan"),
    ("fsdp", "fsdp"),
    ("nanotron", "nanotron"),
    ("nanogpt", "single-file"),
    ("llmc", "single-file"),
)


def stack_named(name: Stack | str) -> Stack:
    """Return a code base of the table by its name or usual name, and a `Stack` unchanged."""
    if isinstance(name, Stack):
        return name
    known = {letters(each) for each in STACKS}
    kin = _kin(name) if isinstance(name, str) and letters(name) not in known else ""
    return named(_("code base"), kin or name, STACKS)


def _kin(software: str) -> str:
    """Return the table's name for a program's usual name, or "" if the table has none."""
    return next((name for part, name in KIN if part in letters(software)), "")


def stack_of_software(software: str, fused_attention: bool) -> Stack:
    """Return the entry for a program's published name ("NeMo 24.05"), or "unknown" if none matches.
    Megatron-LM without fused attention counts as the program before 2022."""
    if software in STACKS:
        return STACKS[software]
    name = _kin(software) or "unknown"
    if name in ("megatron-core", "megatron-lm") and not fused_attention:
        name = "megatron-2021"
    return STACKS[name]
