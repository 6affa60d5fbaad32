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
from course_lib.plan.shapes.parameter_counts import Parameters, on_rank
from course_lib.plan.shapes.ranks import stride
from course_lib.plan.shapes.stages import (
    expert_layers_of_stages,
    head_rank,
    layers_of_stages,
)
from course_lib.plan.time.communication import (
    Group,
    all_gather_s,
    all_reduce_s,
    gather_turns_s,
    group_of,
    reduce_scatter_s,
    reduce_turns_s,
    ring_latency_s,
    send_s,
)
from course_lib.plan.time.kernels import ELEMENT_BYTES, memory_s
from course_lib.plan.time.layer import (
    Pass,
    Setting,
    expert_layer_passes,
    head_passes,
    joining_passes,
    layer_passes,
    setting,
)

KINDS = ("matmul", "attention", "memory", "tensor", "context", "exchange", "launch")
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
    tensor, last = layout.tensor, head_rank(model, layout)
    routed = expert_layers_of_stages(model, layout)
    layers = layers_of_stages(model, layout)
    counts = [total - some for total, some in zip(layers, routed, strict=True)]
    # Each kind of block with its passes, recomputation, parameters, and number on each stage.
    blocks = (
        (layer_passes(s), True, parameter_counts.layer(model, tensor).total, counts),
        (expert_layer_passes(s), True, parameter_counts.expert_layer(model, layout).total, routed),
        (
            head_passes(s),
            False,
            parameter_counts.head(model, tensor),
            [model.heads_of_loss * (rank == last) for rank in range(layout.pipeline)],
        ),
        (
            joining_passes(s),
            False,
            0,
            [model.mtp_layers * (rank == last) for rank in range(layout.pipeline)],
        ),
    )
    costs = []
    seconds = [0.0] * layout.pipeline
    for (forward, backward), is_layer, held, each in blocks:
        again = _recompute(forward, model, layout, stack) if is_layer else 0.0
        adding = memory_s(s.cluster.device, held * stack.accumulated_bytes)
        costs.append(((forward, backward), again, adding, each))
        whole = forward.total + backward.total + again + adding
        seconds = [so_far + count * whole for so_far, count in zip(seconds, each, strict=True)]
    busiest = seconds.index(max(seconds))
    for passes, again, adding, each in costs:
        times = each[busiest] * layout.micro_batches
        for kind in KINDS:
            parts[kind] += times * sum(float(getattr(p, kind)) for p in passes)
        parts["memory"] += times * adding
        parts["recompute"] += times * again
    return seconds


def _sharing(layout: Layout, cluster: Cluster, stage_s: list[float], idle: float) -> float:
    """Return the wait for processors if there are more ranks than processors. A rank that is idle
    in a bubble leaves its processor to others. But the busiest stage, for which all wait, shares
    its processor with them (the bound of list scheduling)."""
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
    one = send_s(cluster, crosses, size) * (1 - stack.pipeline_overlap)
    return sends(layout) * one + _ends(model, layout, s, crosses)


def _ends(model: Model, layout: Layout, s: Setting, crosses: bool) -> float:
    """Return the time to sum the shared word embedding's gradients over both end stages."""
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


def _largest_stage(model: Model, layout: Layout) -> Parameters:
    last = head_rank(model, layout)
    layers = layers_of_stages(model, layout)
    stages = {0, last, layers.index(max(layers))}
    return max((on_rank(model, layout, stage) for stage in stages), key=lambda held: held.total)


def _data_group(layout: Layout, cluster: Cluster) -> Group:
    """Return the group that sums gradients: data and context ranks together."""
    data, context = group_of(layout, cluster, "dp"), group_of(layout, cluster, "cp")
    reach = max(data.reach, context.reach)
    return Group(data.size * context.size, data.per_node * context.per_node, reach)


def _copies_of_experts(layout: Layout, cluster: Cluster) -> Group:
    """Return the group that sums an expert's gradients: the ranks that hold copies of it."""
    size = layout.tensor * layout.context * layout.data // layout.expert_ranks
    per_node = max(1, min(size, cluster.devices_per_node // layout.expert_ranks))
    return Group(size, per_node, -(-size * layout.expert_ranks // cluster.devices_per_node))


def _data(
    model: Model, layout: Layout, cluster: Cluster, stack: Stack, stage: Parameters, busy: float
) -> float:
    """Return the transfers of gradients and weights that computation does not hide."""
    group = _data_group(layout, cluster)
    both = ((group, stage.unrouted), (_copies_of_experts(layout, cluster), stage.experts))
    shared = [(ranks, held) for ranks, held in both if ranks.size > 1 and held]
    if not shared:
        return 0.0
    behind = stack.data_overlap * busy
    sent_bytes, element = stack.gradient_sent_bytes, ELEMENT_BYTES[layout.precision]
    scatter = sum(
        reduce_scatter_s(cluster, ranks, held * sent_bytes, stack.scatters_by_reducing)
        for ranks, held in shared
    )
    gather = sum(all_gather_s(cluster, ranks, float(held * element)) for ranks, held in shared)
    if layout.zero == 3:
        # Each micro-batch gathers weights for each pass, and scatters gradients once.
        pieces = model.all_layers // layout.pipeline + 1
        host = 3 * pieces * stack.host_sharded_ms / 1e3
        waits = 2 * gather_turns_s(cluster, group) + reduce_turns_s(cluster, group)
        if not cluster.processors:  # the host time of a processor includes the latency
            waits += 3 * ring_latency_s(cluster, group)
        if stack.sharded_gb_per_s:
            moved = sum(held for _ranks, held in shared) / (stack.sharded_gb_per_s * 1e9)
            gather, scatter = max(gather, moved * element), max(scatter, moved * sent_bytes)
        sent = layout.micro_batches * (2 * gather + scatter + (pieces - 1) * waits)
        return max(sent - behind, 0.0) + layout.micro_batches * host
    # In an interleaved schedule, most chunks end their last backward, or start their first forward,
    # while other chunks compute.
    chunks = 1 + (layout.pipeline - 1) * (layout.virtual - 1) / layout.virtual
    last_backward = behind * 2 / 3 / layout.micro_batches * min(chunks, layout.micro_batches)
    if layout.zero == 0:
        reduce = sum(all_reduce_s(cluster, ranks, held * sent_bytes) for ranks, held in shared)
        return max(reduce - last_backward, 0.0)
    first_forward = last_backward / 2 if stack.gather_overlap else 0.0
    exposed = max(stack.gather_slowness * gather - first_forward, 0.0)
    return max(scatter - last_backward, 0.0) + exposed


def _optimizer(layout: Layout, cluster: Cluster, stack: Stack, stage: Parameters) -> float:
    own = stage.unrouted / (layout.data * layout.context if layout.zero else 1)
    own += stage.experts / (_copies_of_experts(layout, cluster).size if layout.zero else 1)
    return memory_s(cluster.device, own * stack.optimizer_moved_bytes)
