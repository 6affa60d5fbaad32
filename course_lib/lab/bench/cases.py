"""Which model, in which layout, on how many nodes, and what was published for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from course_lib.lab.errors import RecipeError, listed
from course_lib.lab.job.unfinished import Unfinished, gaps
from course_lib.mistakes.arguments import explained
from course_lib.plan import Layout, Model, PlanError, preset
from course_lib.plan.numbers import not_whole, whole

TOKENS_TO_REPORT = 20e6
# By tag and nodes, on JUWELS Booster: results and strong-scaling table on the benchmark's pages.
PUBLISHED_TOKENS_PER_S = {
    ("13", 8): 60777.68,
    ("175", 48): 14620.74,
    ("175", 96): 36055.39,
    ("175", 192): 52315.10,
}
ACCEPTED_S = {"175": 560.0}
"""Longest time to report with which a machine passes; only the large model counts."""
FREE = ("nodes", "tensor", "pipeline", "micro_batch", "accumulation")


@dataclass(frozen=True)
class Case:
    """`machine` is the cluster of the planner on which the published result was measured. The
    model is fixed by the rules; the layout and the number of nodes are not."""

    tag: str
    title: str
    model: Model
    layout: Layout
    devices_per_node: int
    machine: str
    iterations: int = 50
    log_interval: int = 10

    def __post_init__(self) -> None:
        if self.layout.devices % self.devices_per_node:
            raise RecipeError(
                f"{self.layout.devices} devices do not fill nodes of {self.devices_per_node}"
            )

    @property
    def nodes(self) -> int:
        return self.layout.devices // self.devices_per_node

    @property
    def tokens_per_iteration(self) -> int:
        return self.layout.global_batch * self.model.sequence

    @property
    def is_reference(self) -> bool:
        """Neither layout nor number of nodes was changed."""
        return self == CASES[self.tag]

    @property
    def is_layout_of_reference(self) -> bool:
        """The same but for the number of nodes, with which the batch grows."""
        return self.is_reference or self == CASES[self.tag]._with(nodes=self.nodes)

    def but(self, **changes: Any) -> Any:
        """The same model with other values of the free parameters (0: as they are); data ranks and
        batch follow. With a gap among the values it is an Unfinished, as of a recipe."""
        if wrong := sorted(set(changes) - set(FREE)):
            raise RecipeError(
                f"{', '.join(wrong)}: not free in this benchmark; free are {', '.join(FREE)}"
            )
        if missing := gaps(changes):
            return Unfinished(f"the case of {self.title}", missing)
        sizes = {name: whole(value) for name, value in changes.items()}
        known = {name: size for name, size in sizes.items() if size is not None and size >= 0}
        if wrong := [
            f"{name} {value!r} {not_whole(value)}; use 0 or more"
            for name, value in changes.items()
            if name not in known
        ]:
            raise RecipeError(listed(wrong))
        return self._with(**known)

    def _with(
        self, nodes: int = 0, tensor: int = 0, pipeline: int = 0, micro_batch: int = 0,
        accumulation: int = 0,
    ) -> Case:  # fmt: skip
        usual = self.layout
        chosen = {"tensor": tensor or usual.tensor, "pipeline": pipeline or usual.pipeline}
        chosen["micro_batch"] = micro_batch or usual.micro_batch
        devices = (nodes or self.nodes) * self.devices_per_node
        ranks = chosen["tensor"] * chosen["pipeline"]
        if ranks < 1 or devices % ranks:
            raise RecipeError(
                f"tensor {chosen['tensor']} × pipeline {chosen['pipeline']} = {ranks} does not "
                f"divide the {devices} devices of {nodes or self.nodes} nodes × "
                f"{self.devices_per_node}; nodes × devices must be tensor × pipeline × data"
            )
        data = devices // ranks
        steps = accumulation or usual.micro_batches
        changes: dict[str, Any] = chosen | {
            "data": data,
            "global_batch": data * chosen["micro_batch"] * steps,
            "sequence_parallel": usual.sequence_parallel and chosen["tensor"] > 1,
            "zero": 1 if data > 1 else 0,
        }
        try:
            layout = self.layout.but(**changes)
            layout.check(self.model, devices)
        except PlanError as error:
            raise RecipeError(str(error)) from error
        return replace(self, layout=layout)


def _layout(data: int, tensor: int, pipeline: int, steps: int, precision: str) -> Layout:
    """Micro batch 1; the fused kernel keeps no scores, which is what "selective" asks for."""
    return Layout(
        data=data, tensor=tensor, pipeline=pipeline, global_batch=data * steps, zero=1,
        sequence_parallel=True, precision=precision,
    )  # fmt: skip


BOX = Layout(tensor=2, pipeline=2, global_batch=4, precision="fp32")

CASES = {
    "13": Case(
        "13", "13 B", preset("13b"), _layout(4, 2, 4, 256, "fp16"), 4, "juwels-booster",
        20,
    ),
    "175": Case(
        "175", "175 B", preset("175b"), _layout(6, 8, 8, 16, "bf16"), 4, "juwels-booster",
    ),
    "box": Case(
        "box", "1.9 M", preset("tiny"), BOX, 2, "box", iterations=10, log_interval=1,
    ),
}  # fmt: skip


@explained("bench.case", whatever=True)
def case(tag: str | Case) -> Case:
    """The reference case of this name."""
    if isinstance(tag, Case):
        return tag
    if tag not in CASES:
        raise RecipeError(f"no benchmark {tag!r}; there are: {', '.join(CASES)}")
    return CASES[tag]


@explained("bench.time_to_report_s", whatever=True)
def time_to_report_s(tokens_per_s: float) -> float:
    """Seconds that 20 million tokens would take at this rate."""
    return TOKENS_TO_REPORT / tokens_per_s
