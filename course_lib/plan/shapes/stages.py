"""Which layers a pipeline stage holds."""

from __future__ import annotations

from functools import lru_cache

from course_lib.mistakes.kinds import shown
from course_lib.plan.checks import PlanError
from course_lib.plan.shapes.model import Model

RULES = ("even", "by-cost", "ends-count")

# Measured times and memories show that where head and layers tie, the head gives way.
HEAD_WEIGHT = 0.95


@lru_cache(maxsize=4096)
def layers_of_stages(model: Model, pipeline: int, rule: str = "even") -> tuple[int, ...]:
    """Layers on each pipeline rank (over all its virtual stages).

    "even": as even as it goes, the earlier ranks holding one more. "ends-count": embedding and
    head count as a layer each (BLOOM: 70 layers on 12 stages). "by-cost": blocks are dealt until
    a rank's share of the matrix products is passed, with the head as one block (nanotron); a deep
    pipeline then has ranks without a layer.
    """
    if rule == "even":
        return _even(model.layers, pipeline)
    if rule == "ends-count":
        whole = list(_even(model.layers + 2, pipeline))
        whole[0] -= 1
        whole[-1] -= 1
        return tuple(max(0, layers) for layers in whole)
    if rule == "by-cost":
        return _by_cost(model, pipeline)[0]
    raise PlanError(f"stage rule {shown(rule)} is unknown; use one of {', '.join(RULES)}")


def _even(layers: int, pipeline: int) -> tuple[int, ...]:
    least, more = divmod(layers, pipeline)
    return tuple(least + (rank < more) for rank in range(pipeline))


def _by_cost(model: Model, pipeline: int) -> tuple[tuple[int, ...], int]:
    """Layers of each rank, and the rank that comes to hold the head."""
    # nanotron's own estimate of a layer: four square attention matrices and the feed-forward.
    matrices = 3 if model.activation == "swiglu" else 2
    layer_cost = 4 * model.query_width * model.hidden + matrices * model.ffn * model.hidden
    head_cost = HEAD_WEIGHT * model.vocabulary * model.hidden
    total = model.layers * layer_cost + head_cost
    counts = [0] * pipeline
    rank, done = 0, 0
    for _ in range(model.layers):
        counts[rank] += 1
        done += layer_cost
        if done * pipeline > total * (rank + 1):
            rank += 1
    return tuple(counts), rank


def head_rank(model: Model, pipeline: int, rule: str = "even") -> int:
    """Pipeline rank that holds final norm and head: the last, but under "by-cost" a pipeline
    can end in ranks that hold nothing."""
    return _by_cost(model, pipeline)[1] if rule == "by-cost" else pipeline - 1
