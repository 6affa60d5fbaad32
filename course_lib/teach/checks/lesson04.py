"""Checks of lesson 04, topology."""

from __future__ import annotations

from typing import Any

from course_lib.teach.answers import Amount
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import has_devices
from course_lib.teach.trials.judge import tried
from course_lib.words import _

NODES, DEVICES = 2, 4
RING = 2 * (DEVICES - 1) / DEVICES


ex04_reduce_scatter = tried("04.1", "reduce-scatter")


def ex04_hierarchical(run: Any, ring: Any, factor: object) -> None:
    """Check hierarchical all-reduces of the ring's size, and their predicted speed-up.

    The prediction assumes that only the link between the nodes takes time.
    """
    with Checklist("04.2") as check:
        given = check.number(factor, "expected_factor")
        for one, name in ((run, _("the run")), (ring, _("the run `ring`"))):
            check.started(one, "measure_links.py", name)
        has_devices(check, run, ring.recipe.nodes, ring.recipe.gpus_per_node)
        measured = check.left(run, "links")
        other = check.left(ring, "links", _("the run `ring`"))
        size = _(
            "Give the size from the lesson, `gradient_bytes`, as `bytes`: all gradients once, 4 "
            "bytes each."
        )
        check.equal(measured.all_reduce_bytes, other.all_reduce_bytes, _("bytes"), hint=size)
        check.equal(measured.algorithm, "hierarchical", _("algorithm"))
        check.that(
            len(measured.all_reduce_ms) >= len(other.all_reduce_ms),
            _(
                "the all-reduce was timed {all_reduce_ms} times",
                all_reduce_ms=len(other.all_reduce_ms),
            ),
            hint=_("Fewer times do not show how much the values scatter. Set `repeat`."),
        )
        right = RING / (2 * (NODES - 1) / NODES)
        steps = _(
            "A step of the large ring carries a quarter of the bytes, and a step of the small ring "
            "carries half. Compare bytes, not steps."
        )
        slips = (
            (RING * 2, steps),
            (1 - 1 / right, _("That is the saved share of the time.")),
            (1 / right, _("That is the remaining share of the time.")),
        )
        check.amount(
            given,
            Amount(right=right, slips=slips),
            _("the expected gain is right"),
            hint=_(
                "By what factor does the time fall? Count how often all bytes cross the slow "
                "link: in a ring of 4 devices, and in a ring of 2 devices, one of each node."
            ),
        )
