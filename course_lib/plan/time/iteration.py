"""Seconds of one iteration, in parts that add up."""

from __future__ import annotations

from math import log2

from course_lib.plan.code_bases import Stack
from course_lib.plan.hardware import efficiency as c
from course_lib.plan.hardware.cluster import Cluster
from course_lib.plan.schedules.costs import idle_s, sends
from course_lib.plan.shapes import parameter_counts
from course_lib.plan.shapes.flops import recomputed_layers
from course_lib.plan.shapes.layout import Layout
from course_lib.plan.shapes.model import Model
from course_lib.plan.shapes.parameter_counts import on_rank
from course_lib.plan.shapes.ranks import stride
from course_lib.plan.shapes.stages import head_rank, layers_of_stages
from course_lib.plan.time.communication import (
    Group,
    all_gather_s,
    all_reduce_s,
    gather_turns_s,
    group_of,
    reduce_scatter_s,
    reduce_turns_s,
    send_s,
)
from course_lib.plan.time.kernels import ELEMENT_BYTES, memory_s
from course_lib.plan.time.layer import Pass, Setting, head_passes, layer_passes, setting

KINDS = ("matmul", "attention", "memory", "tensor", "context", "launch")
PARTS = (
    *KINDS,
    "recompute",
    "bubble",
    "sharing",
    "pipeline",
    "data",
    "optimizer",
    "loop",
    "straggler",
)


def iteration_parts(
    model: Model, layout: Layout, cluster: Cluster, stack: Stack
) -> dict[str, float]:
    """Return the seconds of each part on the critical path: the busiest stage's work and waits, and
    everything after the last micro-batch."""
    cluster = cluster.crowded(layout.devices)
    s = setting(model, layout, cluster, stack)
    parts = dict.fromkeys(PARTS, 0.0)
    stage_s = _stages(s, model, layout, stack, parts)
    parts["bubble"] = idle_s(layout, stage_s)
    waiting = (parts["tensor"] + parts["context"]) / layout.micro_batches / max(stage_s)
    computing_s = [(1 - waiting) * seconds for seconds in stage_s]
    parts["sharing"] = _sharing(layout, cluster, computing_s, parts["bubble"])
    parts["pipeline"] = _pipeline(s, model, layout, stack)
    busy = layout.micro_batches * max(stage_s)
    held = _largest_stage(model, layout)
    parts["data"] = _data(model, layout, cluster, stack, held, busy)
    parts["optimizer"] = _optimizer(layout, cluster, stack, held)
    parts["loop"] = stack.iteration_ms / 1e3
    nodes = -(-layout.devices // cluster.devices_per_node)
    parts["straggler"] = c.STRAGGLER_SHARE * log2(nodes) * sum(parts.values())
    return parts


def _stages(
    s: Setting, model: Model, layout: Layout, stack: Stack, parts: dict[str, float]
) -> list[float]:
    """Return each stage's seconds per micro-batch; store the busiest stage's parts in `parts`."""
    layer, head = layer_passes(s), head_passes(s)
    again = _recompute(layer[0], model, layout, stack)
    layers = layers_of_stages(model, layout)
    last = head_rank(model, layout)
    one = layer[0].total + layer[1].total + again
    ends = head[0].total + head[1].total
    adding = _accumulation(s)
    one += adding[0]
    ends += adding[1]
    seconds = [count * one + (ends if rank == last else 0.0) for rank, count in enumerate(layers)]
    busiest = seconds.index(max(seconds))
    for kind in KINDS:
        value = layers[busiest] * sum(float(getattr(p, kind)) for p in layer)
        if busiest == last:
            value += sum(float(getattr(p, kind)) for p in head)
        parts[kind] = value * layout.micro_batches
    added = layers[busiest] * adding[0] + (adding[1] if busiest == last else 0.0)
    parts["memory"] += added * layout.micro_batches
    parts["recompute"] = layers[busiest] * again * layout.micro_batches
    return seconds


def _accumulation(s: Setting) -> tuple[float, float]:
    """Return the seconds to add one micro-batch's gradients of a layer and of the head."""
    moved = s.stack.accumulated_bytes
    if moved == 0:
        return 0.0, 0.0
    tensor, device = s.layout.tensor, s.cluster.device
    own_layer = memory_s(device, parameter_counts.layer(s.model, tensor).total * moved)
    return own_layer, memory_s(device, parameter_counts.head(s.model, tensor) * moved)


def _sharing(layout: Layout, cluster: Cluster, stage_s: list[float], idle: float) -> float:
    """Return the wait for processors if there are more ranks than processors. A rank idle in a
    bubble leaves its processor to others. But the busiest stage, for which all wait at the end,
    shares its processor with them (the bound of list scheduling)."""
    if cluster.paced or not 0 < cluster.processors < layout.devices:
        return 0.0
    busiest, count = layout.micro_batches * max(stage_s), cluster.processors
    work = layout.micro_batches * sum(stage_s) / layout.pipeline * layout.devices / count
    shared = busiest * (1 - 1 / count) if layout.pipeline > 1 else 0.0
    return max(0.0, work + shared - busiest - idle)


def _recompute(forward: Pass, model: Model, layout: Layout, stack: Stack) -> float:
    if layout.recompute == "selective":
        # The course's program recomputes attention with every kernel.
        return 0.0 if layout.flash and not stack.counted else forward.attention
    return forward.total * recomputed_layers(model, layout) / model.layers


def _pipeline(s: Setting, model: Model, layout: Layout, stack: Stack) -> float:
    cluster = s.cluster
    if layout.pipeline == 1:
        return 0.0
    size = s.tokens * s.model.hidden * s.element_bytes
    if layout.sequence_parallel or stack.scattered_sends:
        size //= layout.tensor
    crosses = stride(layout, "pp") * layout.pipeline > cluster.devices_per_node
    turns = 2 if layout.pipeline > 2 else 1
    one = send_s(cluster, crosses, size) * (1 - stack.pipeline_overlap)
    return sends(layout) * (one + turns * cluster.stall_ms / 1e3) + _ends(model, layout, s, crosses)


def _ends(model: Model, layout: Layout, s: Setting, crosses: bool) -> float:
    """Return the time in which first and last stage sum the shared word embedding's gradients."""
    if not model.tied:
        return 0.0
    words = parameter_counts.head(model, layout.tensor) * s.stack.gradient_sent_bytes
    pair = Group(2, 1 if crosses else 2, 2 if crosses else 1)
    if s.cluster.shared_link and crosses:
        # Groups that sum at the same time divide a node's link. They are fewer than the node's
        # devices if a node holds several stages.
        per_node = s.cluster.devices_per_node
        words *= min(layout.devices // layout.pipeline, per_node) / per_node
    return all_reduce_s(s.cluster, pair, words)


def _largest_stage(model: Model, layout: Layout) -> int:
    last = head_rank(model, layout)
    layers = layers_of_stages(model, layout)
    stages = {0, last, layers.index(max(layers))}
    return max(on_rank(model, layout, stage).total for stage in stages)


def _data_group(layout: Layout, cluster: Cluster) -> Group:
    """Return the group that sums gradients: data and context ranks together."""
    data, context = group_of(layout, cluster, "dp"), group_of(layout, cluster, "cp")
    reach = max(data.reach, context.reach)
    return Group(data.size * context.size, data.per_node * context.per_node, reach)


def _data(
    model: Model, layout: Layout, cluster: Cluster, stack: Stack, held: int, busy: float
) -> float:
    group = _data_group(layout, cluster)
    if group.size == 1:
        return 0.0
    gradients = held * stack.gradient_sent_bytes
    weights = float(held * ELEMENT_BYTES[layout.precision])
    behind = stack.data_overlap * busy
    scatter = reduce_scatter_s(cluster, group, gradients, stack.scatters_by_reducing)
    gather = all_gather_s(cluster, group, weights)
    if layout.zero == 3:
        # Each micro-batch gathers weights for each pass, and scatters gradients once.
        pieces = model.layers // layout.pipeline + 1
        host = 3 * pieces * stack.host_sharded_ms / 1e3
        turns = 2 * gather_turns_s(cluster, group) + reduce_turns_s(cluster, group)
        sent = layout.micro_batches * (2 * gather + scatter + (pieces - 1) * turns)
        return max(sent - behind, 0.0) + layout.micro_batches * host
    last_backward = behind * 2 / 3 / layout.micro_batches
    if layout.zero == 0:
        return max(all_reduce_s(cluster, group, gradients) - last_backward, 0.0)
    return max(scatter - last_backward, 0.0) + stack.gather_slowness * gather


def _optimizer(layout: Layout, cluster: Cluster, stack: Stack, held: int) -> float:
    own = held / (layout.data * layout.context if layout.zero else 1)
    return memory_s(cluster.device, own * stack.optimizer_moved_bytes)
