"""Lesson 04, topology."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from course_lib import plan
from course_lib.plan.numbers import unboxed
from course_lib.teach.answers import in_short, only_one, plain
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import BYTES_PER_GRADIENT, same_shape
from course_lib.teach.quantities.written import written_in
from course_lib.teach.slips import EXACT, Quantity

NODES, DEVICES = 2, 4
SAVED = "That is the part of the time that is saved. How many times as fast is asked for."
RING = 2 * (DEVICES - 1) / DEVICES
COLLEAGUE: Mapping[str, object] = {
    "devices_per_node": 8,
    "nodes": 4,
    "inside": "memory",
    "between": "infiniband",
    "gpu_direct": False,
    "adapters": 2,
}
"""The cluster whose lines exercise 04.1 shows, in the order in which they are best found."""
IN_WORDS = {"false": False, "no": False, "true": True, "yes": True}
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
    "adapters": "The exercise tells it: every node has two.",
}


def ex04_describe(answer: object) -> None:
    """The description of a cluster, from four lines of its log."""
    with Checklist("04.1") as check:
        answer = answer.to_dict() if isinstance(answer, pd.Series) else answer
        if not isinstance(answer, Mapping):
            hint = f"It is {type(answer).__name__}. Keep the dict(…) and fill its gaps."
            check.refuse("it is a description of a cluster", hint)
        missing = [name for name in COLLEAGUE if name not in answer and name != "gpu_direct"]
        check.unless(
            bool(missing),
            "it has all that describes a cluster",
            hint=f"There is no {', '.join(missing)} in it. It has: "
            f"{', '.join(map(in_short, answer))}. Keep the names of the dict(…).",
        )
        answer = {"gpu_direct": False, **answer}  # as plan.nccl_log takes it
        for name in COLLEAGUE:
            check.answered(answer[name], name)
        given = {name: _spelt(name, plain(value)) for name, value in answer.items()}
        try:
            plan.nccl_log(**given)
        except (plan.PlanError, TypeError) as error:
            check.refuse("there can be such a cluster", str(error))
        for name, right in COLLEAGUE.items():
            check.that(
                _is(given[name], right),
                f"{name} is that of the log",
                hint=f"You wrote {in_short(given[name])}. {WHERE_TO_LOOK[name]}",
            )


def _spelt(name: str, given: Any) -> Any:
    """A number that was written as a text, a road with capitals, 0 for False."""
    if name == "gpu_direct":
        one = unboxed(only_one(given))
        if isinstance(one, str):
            return IN_WORDS.get(one.strip().lower(), given)
        return bool(one) if type(one) in (int, bool) and one in (0, 1) else given
    if not isinstance(given, str):
        return given
    number = written_in(given)
    return re.sub(r"[\s_-]", "", given.lower()) if number is None else plain(number)


def _is(given: object, right: object) -> bool:
    """Numpy has truth values of its own."""
    known = isinstance(given, str | int | float | np.bool_)
    return known and bool(given == right)


def ex04_hierarchical(run: Any, ring: Any, factor: object) -> None:
    """Ten hierarchical all-reduces of the size that the ring was timed with, and by how much they
    would be faster if the road between the nodes were all that counts."""
    with Checklist("04.2") as check:
        given = check.number(factor, "expected_factor")
        for each, name in ((run, "the run"), (ring, "the run `ring`")):
            check.started(each, "measure_links.py", name)
        same_shape(check, run, ring.recipe.nodes, ring.recipe.gpus_per_node, "as the ring")
        measured = check.left(run, "links")
        other = check.left(ring, "links", "the run `ring`")
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
        _same_size(check, measured.all_reduce_bytes or 0, other.all_reduce_bytes or 0)
        check.that(
            len(measured.all_reduce_ms) >= len(other.all_reduce_ms),
            f"it was timed {len(other.all_reduce_ms)} times",
            hint=f"It was timed {len(measured.all_reduce_ms)} times, too few to see how much the "
            "values scatter. `repeat` says how often.",
        )
        _expected(check, given, _measured(measured.all_reduce_ms, other.all_reduce_ms))


def _same_size(check: Checklist, given: int, wanted: int) -> None:
    piece = (wanted / DEVICES, "That is one device's piece. The program cuts the whole by itself.")
    numbers = (wanted / BYTES_PER_GRADIENT, "That is the number of parameters. Each has 4 bytes.")
    check.amount(
        given,
        Quantity(
            right=wanted,
            unit="bytes",
            share=EXACT,
            within=(wanted, wanted),
            own=(
                numbers,
                piece,
                (RING * wanted, "That is what a device sends. Give the size of what is added up."),
                (
                    2 * wanted,
                    "That is twice the size. Give it once: how often it "
                    "travels is the program's affair.",
                ),
            ),
        ),
        "its size was that of the gradients",
        hint=f"The ring reduced {wanted:,}. Use the size that the lesson worked out for it, "
        "`gradient_bytes`.",
    )


def _measured(mine_ms: list[float], ring_ms: list[float]) -> tuple[float, ...]:
    """By how much it was faster, as one may take it from several times."""
    ways = (np.median, np.mean, np.min, lambda times: np.quantile(times, 0.25))
    return tuple(float(way(ring_ms) / way(mine_ms)) for way in ways)


def _expected(check: Checklist, given: float, measured: tuple[float, ...]) -> None:
    hierarchical = 2 * (NODES - 1) / NODES
    own = (
        (2, "That is how many devices share the road, or how often the ring goes round."),
        (
            RING * 2,
            "In the ring only one device of each node sends over the slow road at a time. Or did "
            "you count 6 steps against 2? A step carries a quarter there, and a half here.",
        ),
        (1, "That would be no gain. How often does everything cross in the ring of four?"),
        (4, "That is how many devices there are."),
        (RING / 2, "That lets the ring go round once. It does twice: to add up, and to hand out."),
        (4 / 3, "That is one over 3/4. How often does it cross, in all steps together?"),
        (100 * RING, "That is in percent. How many times is asked for."),
        (50, "That is by how many percent it is faster. How many times is asked for."),
        (0.5, "That is by how much more it would be. How many times is asked for."),
        (1.75, "That is the ring of 8. Here there are 4 devices."),
        *((part, SAVED) for part in (1 / 3, 33, 100 / 3)),
        *((ratio, "That is what you measured. What is to be expected comes first, on paper.")
          for ratio in measured),
    )  # fmt: skip
    check.amount(
        given,
        Quantity(right=RING / hierarchical, own=own),
        "it was expected to be faster by so much",
        hint="How often does everything cross the slow road in a ring of 4 devices, and how often "
        "in a ring of 2, one of each node?",
    )


def ex04_milliseconds(answer: object, roads: Any) -> None:
    """The ring formula for the gradients of the original lab's model on the measured roads."""
    with Checklist("04.3") as check:
        given = check.number(answer, "lab_model_ms")
        check.started(roads, "measure_links.py", "the run `roads`")
        table = check.left(roads, "links", "the run `roads`").roads.set_index("road")
        check.that(
            "between the nodes" in table.index,
            "the run `roads` had two nodes",
            hint="Its ranks were all on one node, so it knows no road between nodes.",
        )
        model = plan.preset("lab")
        parameters = plan.parameters(model).total
        check.amount(
            given,
            _ring_time(parameters, model, table),
            "it is what the formula gives for your road between the nodes",
            hint=f"The model has {parameters:,} parameters. How many bytes are its gradients, and "
            "which road does every step of the ring wait for?",
        )


def _ring_time(parameters: int, model: plan.Model, roads: Any) -> Quantity:
    def ring_ms(numbers: float, road: str = "between the nodes") -> float:
        latency_ms, bandwidth_gb_s = roads.loc[road, ["latency_ms", "bandwidth_gb_s"]]
        piece_ms = BYTES_PER_GRADIENT * numbers / DEVICES / (bandwidth_gb_s * 1e6)
        return float(2 * (DEVICES - 1) * (latency_ms + piece_ms))

    words = model.hidden * model.vocabulary
    positions = model.hidden * model.sequence
    own = [
        (ring_ms(parameters + words), "You counted the table of words twice; here it is tied."),
        (ring_ms(parameters - words - positions), "You left out the two tables of embeddings."),
        (ring_ms(parameters - words), "You left out the table of words."),
        (ring_ms(0), "That is the latency alone. The bytes are missing."),
        *((ring_ms(parameters) * steps / 6, "A ring of 4 makes 6 steps: 3 to add up, 3 to hand on.")
          for steps in (1, 2, 5)),
        (ring_ms(parameters) * 7 / 6,
         "A ring of 4 makes 6 steps, and one of 8 makes 14 shorter ones. You have 4 devices."),
        (ring_ms(plan.parameters(plan.preset("tiny")).total),
         "That is the model of lesson 03. The one of the original lab is larger."),
        *((ring_ms(parameters * times), "8 bits are a byte. The bandwidth here is in bytes.")
          for times in (8, 1 / 8)),
    ]  # fmt: skip
    binary = "Here 1 MB is 10⁶ bytes, and 1 GB 10⁹: a power of two has slipped in."
    own += [(ring_ms(parameters * 1000**n / 1024**n), binary) for n in (2, 3)]
    if "inside a node" in roads.index:
        inside_ms = ring_ms(parameters, "inside a node")
        hint = "That is the time over the road inside a node. Which link does every step wait for?"
        own.append((inside_ms, hint))
        hint = "That is the mean of both roads. In each step everyone waits for the slowest link."
        own.append(((inside_ms + ring_ms(parameters)) / 2, hint))
    return Quantity(
        right=ring_ms(parameters),
        unit="ms",
        own=tuple(own),
        known={"the MB of its gradients": BYTES_PER_GRADIENT * parameters / 1e6},
        bytes_each=BYTES_PER_GRADIENT,
        ring=DEVICES,
    )
