"""Lesson 04, topology."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from course_lib import plan
from course_lib.teach.checklist import Checklist, close

BYTES_PER_GRADIENT = 4
CLOSE_ENOUGH = 0.05
DEVICES = 4
COLLEAGUE: Mapping[str, object] = {
    "devices_per_node": 8,
    "nodes": 4,
    "inside": "memory",
    "between": "infiniband",
    "gpu_direct": False,
}
"""The cluster whose lines exercise 04.1 shows, in the order in which they are best found."""
WHERE_TO_LOOK = {
    "devices_per_node": "The number in brackets behind a rank is its device within its node, and "
    "counts from 0. What is the highest that you see?",
    "nodes": "Which is the highest rank in the four lines? Ranks count from 0 over all nodes. "
    "What the nodes are called says nothing.",
    "inside": "Only one of the four lines is about two ranks of the same node. What stands behind "
    "its `via`, and what does the table of roads say of it?",
    "between": "Three lines are about ranks of two nodes. What stands behind `via NET/`?",
    "gpu_direct": "An adapter that reads the device's memory itself has one more word at the end "
    "of its lines. Do these have it?",
}


def ex04_describe(answer: object) -> None:
    """The description of a cluster, from four lines of its log."""
    with Checklist("04.1") as check:
        check.that(
            isinstance(answer, Mapping),
            "it is a description of a cluster",
            hint=f"It is {type(answer).__name__}. Keep the dict(…) and fill its gaps.",
        )
        assert isinstance(answer, Mapping)
        for name in COLLEAGUE:
            check.answered(answer.get(name, ...), name)
        try:
            plan.nccl_log(**answer)
        except (plan.PlanError, TypeError) as error:
            check.that(False, "there can be such a cluster", hint=str(error))
        for name, right in COLLEAGUE.items():
            check.that(
                answer[name] == right,
                f"{name} is that of the log",
                hint=f"You wrote {answer[name]!r}. {WHERE_TO_LOOK[name]}",
            )


def ex04_hierarchical(run: Any, ring: Any) -> None:
    """Ten hierarchical all-reduces of the size that the ring was timed with."""
    with Checklist("04.2") as check:
        check.succeeded(run)
        check.succeeded(ring, "the run `ring`")
        check.that(
            run.recipe.program.endswith("measure_links.py"),
            "the run measured links",
            hint=f"This is the run {run.name}, which started something else.",
        )
        check.that(
            run.recipe.nodes == ring.recipe.nodes and run.recipe.devices == ring.recipe.devices,
            "it had the same nodes and devices as the ring",
            hint=f"It had {run.recipe.nodes} × {run.recipe.gpus_per_node}, the ring "
            f"{ring.recipe.nodes} × {ring.recipe.gpus_per_node}.",
        )
        measured, other = run.links, ring.links
        check.that(
            bool(measured.all_reduce_ms),
            "it timed all-reduces of one size",
            hint="It measured all sizes between all pairs. The size goes into `bytes`.",
        )
        check.that(
            measured.algorithm == "hierarchical",
            "it added up inside the nodes first",
            hint=f"Its algorithm was {measured.algorithm!r}; the name of the other one stands in "
            "the exercise.",
        )
        _same_size(check, measured.all_reduce_bytes, other.all_reduce_bytes)
        check.that(
            len(measured.all_reduce_ms) >= len(other.all_reduce_ms),
            f"it was timed {len(other.all_reduce_ms)} times",
            hint=f"It was timed {len(measured.all_reduce_ms)} times, too few to see how much the "
            "values scatter. `repeat` says how often.",
        )


def _same_size(check: Checklist, given: int, wanted: int) -> None:
    if given * BYTES_PER_GRADIENT == wanted:
        hint = "That is the number of parameters. Each gradient has 4 bytes."
    elif given * DEVICES == wanted:
        hint = "That is one device's piece. The program cuts the whole by itself."
    else:
        hint = "Use the size that the lesson worked out for the ring, `gradient_bytes`."
    check.that(
        given == wanted,
        "its size was that of the gradients",
        hint=f"It reduced {given:,} bytes, the ring {wanted:,}. {hint}",
    )


def ex04_milliseconds(answer: object, roads: Any) -> None:
    """The ring formula for the gradients of the original lab's model on the measured roads."""
    with Checklist("04.3") as check:
        given = check.number(answer, "lab_model_ms")
        check.succeeded(roads, "the run `roads`")
        parameters = plan.parameters(plan.preset("lab")).total
        size_bytes = BYTES_PER_GRADIENT * parameters
        times = {road.road: _ring_ms(size_bytes, road) for road in roads.links.roads.itertuples()}
        right = times.get("between the nodes", 0.0)
        check.that(
            right > 0,
            "the run `roads` had two nodes",
            hint="Its ranks were all on one node, so it knows no road between nodes.",
        )
        whole_ms = size_bytes / _bytes_per_ms(roads)
        wrong = {
            times.get("inside a node", -1.0): "That is the time over the road inside a node. Which "
            "link does every step wait for?",
            right / BYTES_PER_GRADIENT: "That is for one byte per gradient; there are 4.",
            right / 1e3: "The digits are those of seconds; milliseconds are asked for.",
            right * 1e3: "The digits are those of microseconds; milliseconds are asked for.",
            whole_ms: "That is the size divided by the bandwidth. In a ring every piece crosses "
            "each link more than once.",
            2 * whole_ms: "That is twice the size divided by the bandwidth. In a ring of 4 the "
            "factor is 2 (4 − 1) / 4.",
        }
        found = [hint for value, hint in wrong.items() if _close(given, value)]
        check.that(
            _close(given, right),
            "it is what the formula gives for your road between the nodes",
            hint=found[0]
            if found
            else f"You answered {given:g}. The model has {parameters:,} parameters. How many bytes "
            "are its gradients, and which road does every step of the ring wait for?",
        )


def _ring_ms(size_bytes: int, road: Any) -> float:
    piece_ms = size_bytes / DEVICES / (road.bandwidth_gb_s * 1e6)
    return float(2 * (DEVICES - 1) * (road.latency_ms + piece_ms))


def _bytes_per_ms(roads: Any) -> float:
    table = roads.links.roads
    found = table.loc[table["road"] == "between the nodes", "bandwidth_gb_s"].tolist()
    return float(statistics.median(found) * 1e6)


def _close(value: float, right: float) -> bool:
    return right > 0 and close(value, right, CLOSE_ENOUGH)
