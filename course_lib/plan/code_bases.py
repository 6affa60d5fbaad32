"""Code bases, as far as they show in time and memory. One `Stack` per family of
programs; its numbers are counts of what the program keeps or sends, and a few measured times."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from course_lib.plan.checks import expect, keep_flags, keep_numbers, named, one_of
from course_lib.words import _

FLASH_KERNELS = ("flash1", "flash2", "cudnn")


@dataclass(frozen=True)
class Stack:
    """Times in ms are of the Python thread that launches kernels: a layer cannot be faster than
    its launch. Shares are of 1. `*_bytes` are per parameter, logit or element."""

    name: str
    # The program of which this is a version: they share the runs that were measured.
    program: str = ""
    # Launching one layer: forward, backward; each further tensor rank adds `host_tensor_share`
    # (all must arrive), and a pipeline that leaves the node `host_contended_ms` per tensor rank.
    host_forward_ms: float = 1.0
    host_backward_ms: float = 1.5
    host_tensor_share: float = 0.03
    host_contended_ms: float = 0.0
    iteration_ms: float = 10.0  # loss, norm, logging and data, once per iteration
    # Passes through memory relative to unfused kernels that read and write everything.
    pointwise: float = 1.0
    flash_kernel: str = "flash2"
    # Year of the libraries that multiply matrices: newer ones know a new device better.
    libraries: int = 2024
    dropout: bool = False
    # Share of a transfer, or of the backward pass behind which it goes on, that hides behind work.
    tensor_overlap_forward: float = 0.0
    tensor_overlap: float = 0.0
    data_overlap: float = 0.0
    pipeline_overlap: float = 0.0
    # Activations between stages are sent in `tensor` pieces and gathered on arrival.
    scattered_sends: bool = False
    # The course's own program: its memory is counted buffer by buffer (memory/course_program.py).
    counted: bool = False
    # Bytes per parameter.
    weight_bytes: float = 2.0
    gradient_bytes: float = 4.0
    gradient_sent_bytes: float = 4.0
    # How much longer than their bytes gathering ZeRO-1's weights takes.
    gather_slowness: float = 1.0
    # Host's work for each time that the parameters of a layer are gathered, or their gradients
    # scattered (ZeRO-3): hooks, copies into and out of what is sent.
    host_sharded_ms: float = 0.0
    # Sums are scattered by an all-reduce of the whole, as gloo does.
    scatters_by_reducing: bool = False
    optimizer_bytes: float = 12.0
    optimizer_moved_bytes: float = 50.0
    # Moved by each micro-batch to add its gradients to the sum; 0 if the product itself adds.
    accumulated_bytes: float = 0.0
    # Bytes per logit that are alive at once, forward and backward of the loss.
    logit_bytes: float = 6.3
    # Of what norms and residuals save, the share that every tensor rank holds whole.
    whole_share: float = 1.0
    # Moved through memory per logit by the loss, forward and backward.
    logit_moved_bytes: float = 40.0
    # With sequence parallelism, matrices keep their gathered inputs rather than gather them again.
    keeps_gathered: bool = False
    # Context ranks gather all keys and values (and keep them) rather than pass them round a ring.
    gathers_keys: bool = False
    # Saved by a layer beyond the unavoidable (copies that unfused operations leave), in units of
    # tokens × hidden × bytes of an element, divided among tensor ranks.
    copied_widths: float = 0.0
    # Alive once, whatever the depth, in units of tokens × hidden × bytes of an element.
    working_widths: float = 4.0
    workspace_gib: float = 0.1
    # Reserved by the caching allocator beyond what is allocated, as a share.
    reserve_share: float = 0.05

    def __post_init__(self) -> None:
        expect(str, "name", self.name, '"megatron-core"')
        expect(str, "program", self.program, '"megatron-core"')
        object.__setattr__(self, "program", self.program or self.name)
        kinds = {entry.name: type(entry.default) for entry in fields(self)}
        keep_flags(self, *(name for name, kind in kinds.items() if kind is bool))
        keep_numbers(self, *(name for name, kind in kinds.items() if kind in (int, float)))
        one_of("flash_kernel", self.flash_kernel, FLASH_KERNELS)


# Since 2024: attention of cuDNN, and transfers that hide behind work in all dimensions.
MEGATRON_CORE = Stack(
    "megatron-core",
    program="megatron-core",
    libraries=2025,
    flash_kernel="cudnn",
    tensor_overlap_forward=0.8,
    tensor_overlap=0.8,
    data_overlap=0.9,
    pipeline_overlap=0.5,
)

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
        ),
        Stack("megatron-2020", dropout=True, gradient_sent_bytes=2, pointwise=2),
        Stack(
            "megatron-deepspeed",
            dropout=True,
            gradient_sent_bytes=2,
            gradient_bytes=6,
            logit_bytes=10,
            scattered_sends=True,
            host_forward_ms=0.95,
            host_backward_ms=1.4,
            iteration_ms=5,
        ),
        # With sequence parallelism and the first fused attention, before fused layers.
        Stack(
            "megatron-2023",
            dropout=True,
            tensor_overlap=0.4,
            flash_kernel="flash1",
            pointwise=1.3,
        ),
        MEGATRON_CORE,
        # The same program as it is published, with older libraries than its makers' own releases.
        replace(MEGATRON_CORE, name="megatron-lm", libraries=2024),
        # NeMo and Megatron-Bridge: its makers' releases keep and sum gradients in bf16.
        replace(MEGATRON_CORE, name="nemo", gradient_bytes=2, gradient_sent_bytes=2),
        Stack(
            "nanotron",
            libraries=2023,
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
        # A hand-written loop around one model, compiled: nanoGPT, llm.c.
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
        # Of which nothing is known but what most have in common.
        Stack("unknown"),
    )
}


# Part of a program's name, without case and punctuation → its entry; the first that fits counts.
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
    """A code base of the table ("unknown" is in it too), as it is usually called, or one of one's
    own."""
    if isinstance(name, Stack):
        return name
    kin = _kin(name) if isinstance(name, str) and name.lower() not in STACKS else ""
    return named(_("code base"), kin or name, STACKS)


def _kin(software: str) -> str:
    """Name in the table of the program whose usual name this is; "" if of none."""
    letters = "".join(letter for letter in software.lower() if letter.isalnum())
    return next((name for part, name in KIN if part in letters), "")


def stack_of_software(software: str, fused_attention: bool) -> Stack:
    """The entry of a code base as somebody calls it ("NeMo 24.05", "GPT-NeoX"); "unknown" if it is
    kin to none. Megatron-LM without fused attention is that of before 2022."""
    if software in STACKS:
        return STACKS[software]
    name = _kin(software) or "unknown"
    if name in ("megatron-core", "megatron-lm") and not fused_attention:
        name = "megatron-2021"
    return STACKS[name]
