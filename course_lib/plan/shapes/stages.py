"""Numbers of layers on pipeline stages."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice

from course_lib.plan.shapes.layout import Layout
from course_lib.plan.shapes.model import Model

# Factor on the head's cost: measurements show that ties are decided against the head.
HEAD_WEIGHT = 0.95


def layers_of_stages(model: Model, layout: Layout) -> tuple[int, ...]:
    """Return each pipeline rank's layers, over its virtual stages, by the layout's `stages`."""
    return _layers(model, layout.pipeline, layout.virtual, layout.stages)[0]


def expert_layers_of_stages(model: Model, layout: Layout) -> tuple[int, ...]:
    """Return how many of each pipeline rank's layers have experts."""
    return _layers(model, layout.pipeline, layout.virtual, layout.stages)[1]


@lru_cache(maxsize=4096)
def _layers(
    model: Model, pipeline: int, virtual: int, stages: str | tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    last, left = -1, model.mtp_layers  # beside the head, which they share
    if stages == "by-cost":
        each, last = _by_cost(model, pipeline)
    elif isinstance(stages, tuple):
        each = stages
    elif stages == "ends-count":
        whole = _even(model.layers + 2, pipeline * virtual)
        each = (max(0, whole[0] - 1), *whole[1:-1], max(0, whole[-1] - 1))
    elif stages == "nearly-even":
        each, left = _even(model.all_layers, pipeline * virtual), 0
    else:
        each = _even(model.layers, pipeline * virtual)
    last %= len(each)
    each = (*each[:last], each[last] + left, *each[last + 1 :])
    layers = iter(range(model.all_layers))
    with_experts = [sum(map(model.has_experts, islice(layers, count))) for count in each]
    ranks = range(pipeline)
    return (
        tuple(sum(each[rank::pipeline]) for rank in ranks),
        tuple(sum(with_experts[rank::pipeline]) for rank in ranks),
    )


def _even(layers: int, pipeline: int) -> tuple[int, ...]:
    least, more = divmod(layers, pipeline)
    return tuple(least + (rank < more) for rank in range(pipeline))


def _by_cost(model: Model, pipeline: int) -> tuple[tuple[int, ...], int]:
    """Return the layers of each rank, and the rank that holds the head."""
    # nanotron's own estimate of a layer: four square attention matrices and the MLP.
    matrices = 3 if model.activation == "swiglu" else 2
    layer_cost = 4 * model.query_width * model.hidden + matrices * model.ffn * model.hidden
    head_cost = HEAD_WEIGHT * model.vocabulary * model.hidden
    total = model.layers * layer_cost + head_cost
    counts = [0] * pipeline
    rank, done = 0, 0
    for _unused in range(model.layers):
        counts[rank] += 1
        done += layer_cost
        if done * pipeline > total * (rank + 1):
            rank += 1
    return tuple(counts), rank


def head_rank(model: Model, layout: Layout) -> int:
    """Return the pipeline rank with final norm and head: the last, except that "by-cost" can leave
    the last ranks of a pipeline empty."""
    pipeline = layout.pipeline
    return _by_cost(model, pipeline)[1] if layout.stages == "by-cost" else pipeline - 1
