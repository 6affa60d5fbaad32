"""Seconds of one transformer layer and of the head, on one device for one micro-batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial

from course_lib.plan.code_bases import Stack
from course_lib.plan.hardware import efficiency as c
from course_lib.plan.hardware.cluster import Cluster
from course_lib.plan.shapes.layout import Layout
from course_lib.plan.shapes.model import Experts, Model
from course_lib.plan.time.communication import (
    Group,
    all_gather_s,
    all_reduce_s,
    exchange_s,
    group_of,
    reduce_scatter_s,
    ring_all_reduce_s,
    send_s,
)
from course_lib.plan.time.kernels import (
    ELEMENT_BYTES,
    OPERAND_BYTES,
    flash_s,
    matmul_s,
    memory_s,
    without_linear,
)


@dataclass(frozen=True)
class Pass:
    """Seconds of one pass (forward or backward) by kind of device work, and of the launches on the
    host; a smooth maximum of both is the total."""

    matmul: float = 0.0
    attention: float = 0.0
    memory: float = 0.0
    tensor: float = 0.0
    context: float = 0.0
    exchange: float = 0.0
    host: float = 0.0
    sharpness: float = c.LAUNCH_SHARPNESS

    @property
    def device(self) -> float:
        sent = self.tensor + self.context + self.exchange
        return self.matmul + self.attention + self.memory + sent

    @property
    def total(self) -> float:
        shorter, longer = sorted((self.device, self.host))
        sharpness = self.sharpness
        return longer * (1 + (shorter / longer) ** sharpness) ** (1 / sharpness) if longer else 0.0

    @property
    def launch(self) -> float:
        """Return the time that launches add to the device's time."""
        return self.total - self.device


@dataclass(frozen=True)
class Setting:
    """Inputs of one layer's time; hashable, so that a search computes it once."""

    model: Model
    layout: Layout
    cluster: Cluster
    stack: Stack

    @property
    def tokens(self) -> int:
        """Return the tokens of one micro-batch on one rank."""
        return self.layout.micro_batch * self.model.sequence // self.layout.context

    @property
    def own_tokens(self) -> float:
        """Return the tokens of which this rank has the hidden state between matmuls."""
        return self.tokens / (self.layout.tensor if self.layout.sequence_parallel else 1)

    @property
    def element_bytes(self) -> int:
        return ELEMENT_BYTES[self.layout.precision]

    @property
    def sharpness(self) -> float:
        """Return 1 on processors, because they launch and compute in turns."""
        return 1.0 if self.cluster.processors else c.LAUNCH_SHARPNESS


# Checked once for all layouts of a search that have the same layers.
_reduced = lru_cache(maxsize=65536)(Layout)
_one_node = lru_cache(maxsize=64)(partial(Cluster.but, nodes=1))


def setting(model: Model, layout: Layout, cluster: Cluster, stack: Stack) -> Setting:
    """Return the layout reduced to the values that affect a single layer."""
    crosses = layout.pipeline > 1 and layout.devices > cluster.devices_per_node
    reduced = _reduced(
        tensor=layout.tensor,
        context=layout.context,
        pipeline=2 if crosses else 1,
        micro_batch=layout.micro_batch,
        sequence_parallel=layout.sequence_parallel,
        precision=layout.precision,
        flash=layout.flash,
        order=layout.order,
        data=layout.data if model.experts else 1,
        expert=layout.expert,
        expert_tensor=layout.expert_tensor,
    )
    return Setting(model, reduced, _one_node(cluster), stack)


# Seconds of forward and of backward.
Both = tuple[float, float]
Shapes = tuple[tuple[int, int], ...]


def _sum(*parts: Both) -> Both:
    return sum(part[0] for part in parts), sum(part[1] for part in parts)


def _attention_matrices(model: Model, tensor: int) -> Shapes:
    """Return (inputs, outputs) of attention's matrices on one tensor rank."""
    return tuple(
        (
            max(1, inputs // tensor) if split == "inputs" else inputs,
            max(1, outputs // tensor) if split == "outputs" else outputs,
        )
        for inputs, outputs, split in model.attention_matrices
    )


def _mlp_matrices(model: Model, ffn: int) -> Shapes:
    gates = 2 if model.activation == "swiglu" else 1
    return (model.hidden, gates * max(1, ffn)), (max(1, ffn), model.hidden)


def _products(s: Setting, shapes: Shapes, precision: str, rows: int = 0, batch: int = 1) -> Both:
    """Return the times of a matmul, forward and backward. Backward has two, for inputs and weights.
    A `batch` of experts, each with `rows` rows, multiplies in one kernel."""
    device, year, rows = s.cluster.device, s.stack.libraries, rows or s.tokens
    forward = backward = 0.0
    for inputs, outputs in shapes:
        forward += matmul_s(device, precision, year, (rows, outputs, inputs), batch)
        backward += matmul_s(device, precision, year, (rows, inputs, outputs), batch)
        backward += matmul_s(device, precision, year, (inputs, outputs, rows), batch)
    return forward, backward


def _casts(s: Setting, shapes: Shapes) -> Both:
    """Return the time to cast inputs (forward) and output gradients (backward) of linear layers. A
    tensor that is split over the tensor ranks is cast before it is gathered. Weights are cast once
    an iteration."""
    moved = float(s.tokens) * c.CAST_BYTES.get(s.layout.precision, 0.0)
    split = s.layout.tensor if s.layout.sequence_parallel else 1
    hidden, device = s.model.hidden, s.cluster.device
    inputs, outputs = (
        sum(size / split if size == hidden else size for size in sizes)
        for sizes in zip(*shapes, strict=True)
    )
    return memory_s(device, inputs * moved), memory_s(device, outputs * moved)


def _attention(s: Setting) -> tuple[float, float]:
    model, layout, device = s.model, s.layout, s.cluster.device
    heads = max(1, model.heads // layout.tensor)
    local = model.sequence // layout.context
    batch = layout.micro_batch * heads
    precision = without_linear(layout.precision)
    if layout.flash:
        sizes = model.head_size + model.value_size
        pairs = model.attended_share * local * model.sequence / (2 if model.causal else 1)
        flops = 2.0 * batch * pairs * sizes
        one = flash_s(device, precision, s.stack.flash_kernel, flops, model.sequence)
        return one, c.FLASH_BACKWARD_FACTOR * one
    scores, values = (
        (local, model.sequence, model.head_size),
        (local, model.value_size, model.sequence),
    )
    one = matmul_s(device, precision, s.stack.libraries, scores, batch)
    one += matmul_s(device, precision, s.stack.libraries, values, batch)
    cell_bytes = float(batch) * local * model.sequence * s.element_bytes
    # Softmax reads and writes the scores; dropout reads, writes, and keeps a mask of bytes.
    forward, backward = (4.5, 5.5) if s.stack.drops(s.model) else (2.0, 3.0)
    return one + memory_s(device, cell_bytes * forward), 2 * one + memory_s(
        device, cell_bytes * backward
    )


def _moved(s: Setting, forward: float, backward: float) -> Both:
    """Return the time to pass these amounts of numbers through memory."""
    # A processor converts 16-bit values to 32 bits, so they save no memory traffic.
    size = ELEMENT_BYTES["fp32"] if s.cluster.processors else s.element_bytes
    scale = s.stack.pointwise * size
    return memory_s(s.cluster.device, forward * scale), memory_s(s.cluster.device, backward * scale)


def _norms(s: Setting) -> Both:
    """Return the time of norms, residuals with dropout, and queries, keys and values."""
    model, layout = s.model, s.layout
    whole = s.own_tokens * model.hidden
    mask = 0.5 if s.stack.drops(model) else 0.0
    heads = s.tokens * (model.query_width + model.kv_width) / layout.tensor
    return _moved(
        s, whole * (4 + 2 * (3 + mask)) + heads * 2, whole * (8 + 2 * (3 + mask)) + heads * 3
    )


def _activation(s: Setting, values: float) -> Both:
    """Return the time of the activation function for a number of inner values of an MLP."""
    gated = s.model.activation == "swiglu"
    return _moved(s, values * (5 if gated else 2), values * (8 if gated else 3))


@dataclass(frozen=True)
class Block:
    """Second half of a layer, an MLP or experts: forward and backward by kind."""

    matmul: Both
    memory: Both
    exchange: Both = (0.0, 0.0)
    host: Both = (0.0, 0.0)
    transfers: int = 1  # pairs of transfers between tensor ranks


def _mlp(s: Setting, ffn: int) -> Block:
    """Return an MLP of which each tensor rank has `ffn` inner values for each token."""
    shapes = _mlp_matrices(s.model, ffn)
    memory = _sum(_casts(s, shapes), _activation(s, float(s.tokens) * ffn))
    return Block(_products(s, shapes, s.layout.precision), memory)


def _experts(s: Setting, experts: Experts) -> Block:
    """Return router, exchange and experts. Each rank sends its tokens to the ranks of their
    experts and gets them back, in both passes; `expert_tensor` ranks gather them there."""
    model, layout, cluster = s.model, s.layout, s.cluster
    split = layout.expert_tensor or layout.tensor
    local = experts.count // layout.expert
    routed = s.own_tokens * experts.per_token * split * c.UNEVEN
    ffn = model.ffn // split
    shapes = _mlp_matrices(model, ffn)
    rows = max(1, round(routed / local))
    grouped = _products(s, shapes, layout.precision, rows, local)
    router = _products(s, ((model.hidden, experts.count),), "fp32", max(1, round(s.own_tokens)))
    moved = c.PERMUTED_WIDTHS * routed * model.hidden
    cast = 2.0 * routed * (model.hidden + ffn) * c.CAST_BYTES.get(layout.precision, 0.0)
    memory = _sum(
        _activation(s, routed * ffn),
        _moved(s, moved, moved),
        (memory_s(cluster.device, cast / 2), memory_s(cluster.device, cast / 2)),
    )
    matmul = _sum(grouped, router)
    sent = routed * model.hidden * s.element_bytes / c.UNEVEN
    per_node = max(1, cluster.devices_per_node // split)
    group = Group(layout.expert, min(layout.expert, per_node))
    token_bytes = s.own_tokens * model.hidden * s.element_bytes
    share = experts.group_share
    crossed = 2 * exchange_s(cluster, group, token_bytes, experts.per_token, share)
    if split > 1:
        slices = Group(split, min(split, cluster.devices_per_node))
        crossed += 2 * all_gather_s(cluster, slices, sent)
    host = s.stack.host_expert_ms / 1e3
    if not experts.shared:
        return Block(matmul, memory, (crossed, crossed), (host, 1.5 * host), transfers=0)
    shared = _mlp(s, experts.shared * model.ffn // layout.tensor)
    return Block(
        _sum(matmul, shared.matmul), _sum(memory, shared.memory), (crossed, crossed),
        (host, 1.5 * host),
    )  # fmt: skip


def _tensor(s: Setting) -> float:
    """Return the transfers of half a layer in one pass: an all-reduce, or an all-gather and a
    reduce-scatter. Between nodes they are rings: a layer waits for each step."""
    if s.layout.tensor == 1:
        return 0.0
    size = s.tokens * s.model.hidden * s.element_bytes
    group = group_of(s.layout, s.cluster, "tp")
    if not s.layout.sequence_parallel:
        all_reduce = all_reduce_s if group.nodes == 1 else ring_all_reduce_s
        return all_reduce(s.cluster, group, size)
    scatter = reduce_scatter_s(s.cluster, group, size, s.stack.scatters_by_reducing)
    gathered = float(s.tokens) * s.model.hidden * OPERAND_BYTES[s.layout.precision]
    return all_gather_s(s.cluster, group, gathered) + scatter


def _late(s: Setting, members: int, computed_s: float) -> float:
    """Return the wait of a group for its latest rank in every layer, if ranks keep a pace."""
    return c.LATE_SHARE * computed_s if s.cluster.paced and members > 1 else 0.0


def _context(s: Setting, attention: tuple[float, float]) -> tuple[float, float]:
    """Return forward and backward. Ring attention overlaps the transfer of keys and values with its
    computation; other programs gather all of them first."""
    if s.layout.context == 1:
        return 0.0, 0.0
    size = float(s.tokens) * s.model.kv_width / s.layout.tensor * s.element_bytes
    group = group_of(s.layout, s.cluster, "cp")
    if s.stack.gathers_keys:
        whole = size * s.layout.context
        scatter = reduce_scatter_s(s.cluster, group, whole, s.stack.scatters_by_reducing)
        return all_gather_s(s.cluster, group, whole), scatter
    one, steps = send_s(s.cluster, group.nodes > 1, size), s.layout.context - 1
    forward, backward = (work / s.layout.context for work in attention)
    # Backward also passes on the gradients of keys and values.
    return steps * max(0.0, one - forward), steps * max(0.0, 2 * one - backward)


def _host(s: Setting) -> tuple[float, float]:
    """Return the launch time of one layer. At every collective, a tensor group waits for its
    slowest rank, and longer if the processors also drive a pipeline's traffic between nodes."""
    tensor = s.layout.tensor
    waiting = 1 + s.stack.host_tensor_share * (tensor - 1)
    contended = 0.0
    if s.layout.pipeline > 1 and tensor > 1:
        contended = s.stack.host_contended_ms * tensor / 2
        group = group_of(s.layout, s.cluster, "tp")
        if group.nodes > 1:
            contended += 4 * (tensor - 1) * s.cluster.across.latency_us * 1e-3
    if not s.layout.flash and s.layout.micro_batch * (s.model.heads // tensor) % 4:
        contended += s.stack.host_softmax_ms
    forward = s.stack.host_forward_ms * waiting + contended
    backward = s.stack.host_backward_ms * waiting + contended
    return forward / 1e3, backward / 1e3


@lru_cache(maxsize=65536)
def layer_passes(s: Setting) -> tuple[Pass, Pass]:
    """Return forward and backward of one layer without experts, without recomputation."""
    return _passes(s, _mlp(s, s.model.dense_ffn // s.layout.tensor))


@lru_cache(maxsize=65536)
def expert_layer_passes(s: Setting) -> tuple[Pass, Pass]:
    """Return forward and backward of one layer with experts, without recomputation."""
    return _passes(s, _experts(s, s.model.experts)) if s.model.experts else layer_passes(s)


def _passes(s: Setting, block: Block) -> tuple[Pass, Pass]:
    matrices = _attention_matrices(s.model, s.layout.tensor)
    products = _sum(_products(s, matrices, s.layout.precision), block.matmul)
    memory = _sum(_norms(s), _casts(s, matrices), block.memory)
    attention, host = _attention(s), _sum(_host(s), block.host)
    context, tensor = _context(s, attention), (1 + block.transfers) * _tensor(s)
    overlap = s.stack.tensor_overlap_forward, s.stack.tensor_overlap

    def one(i: int) -> Pass:
        computed_s = products[i] + attention[i] + memory[i]
        waits = [_late(s, members, computed_s) for members in (s.layout.tensor, s.layout.context)]
        hidden_s = min(s.stack.exchange_overlap * block.exchange[i], computed_s)
        exchanged_s = block.exchange[i] - hidden_s
        exposed_s = tensor - overlap[i] * min(tensor, products[i])
        sent = exposed_s + waits[0], context[i] + waits[1], exchanged_s
        return Pass(products[i], attention[i], memory[i], *sent, host[i], s.sharpness)

    return one(0), one(1)


def joining_passes(s: Setting) -> tuple[Pass, Pass]:
    """Return the passes that join a hidden state with the next token's embedding (MTP)."""
    columns = max(1, s.model.hidden // s.layout.tensor)
    products = _products(s, ((2 * s.model.hidden, columns),), s.layout.precision)
    return Pass(matmul=products[0]), Pass(matmul=products[1])


@lru_cache(maxsize=65536)
def head_passes(s: Setting) -> tuple[Pass, Pass]:
    """Return forward and backward of final norm, logits (or patches) and loss."""
    model, tensor, device = s.model, s.layout.tensor, s.cluster.device
    if model.patches is not None:
        outputs = model.patches.out_channels * model.patches.size**2
        moved = 8.0
    else:
        outputs = model.padded_vocabulary(tensor) // tensor
        moved = s.stack.logit_moved_bytes
    products = _products(s, ((model.hidden, outputs),), without_linear(s.layout.precision))
    loss = memory_s(device, float(s.tokens) * outputs * moved)
    host = _host(s)
    return (
        Pass(
            matmul=products[0],
            memory=0.6 * loss,
            host=host[0] * c.HEAD_LAUNCH_LAYERS,
            sharpness=s.sharpness,
        ),
        Pass(
            matmul=products[1],
            memory=0.4 * loss,
            tensor=_tensor(s),
            host=host[1] * c.HEAD_LAUNCH_LAYERS,
            sharpness=s.sharpness,
        ),
    )
