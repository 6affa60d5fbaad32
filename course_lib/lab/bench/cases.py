"""Cases of the benchmark: model, layout and nodes, with their published results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from course_lib.lab.errors import RecipeError
from course_lib.lab.job.unfinished import Unfinished, gaps
from course_lib.mistakes.arguments import explained
from course_lib.plan import Layout, Model, PlanError, preset
from course_lib.plan.numbers import whole
from course_lib.words import _

if TYPE_CHECKING:
    import pandas as pd

TOKENS_TO_REPORT = 20e6
# Results by tag and nodes on JUWELS Booster, from the benchmark's pages and strong-scaling table.
PUBLISHED_TOKENS_PER_S = {
    ("13", 8): 60777.68,
    ("175", 48): 14620.74,
    ("175", 96): 36055.39,
    ("175", 192): 52315.10,
}
# Longest time to report with which a machine passes. Only the large model counts.
ACCEPTED_S = {"175": 560.0}
SIZES_OF_THE_LAYOUT = ("tensor", "pipeline", "micro_batch")
FREE = ("nodes", *SIZES_OF_THE_LAYOUT, "accumulation")


@dataclass(frozen=True)
class Case:
    """A benchmark case. The rules fix the model, but not the layout and the number of nodes.
    `machine` is the planner's cluster on which the published result was measured."""

    tag: str
    title: str
    model: Model
    layout: Layout
    devices_per_node: int
    machine: str
    iterations: int = 50
    log_interval: int = 10

    @property
    def nodes(self) -> int:
        return self.layout.devices // self.devices_per_node

    def but(self, **changes: Any) -> Any:
        """Return the case with other values of the free parameters (0: unchanged). Data ranks and
        batch follow. Return an Unfinished if a value is a gap."""
        if wrong := sorted(set(changes) - set(FREE)):
            raise RecipeError(
                _(
                    "the benchmark fixes {wrong}; you can change {free}",
                    wrong=", ".join(wrong),
                    free=", ".join(FREE),
                )
            )
        if missing := gaps(changes):
            return Unfinished(_("the case of {title}", title=self.title), missing)
        sizes = {name: whole(value) for name, value in changes.items()}
        if wrong := [name for name, size in sizes.items() if size is None or size < 0]:
            raise RecipeError(_("{wrong}: use whole numbers", wrong=", ".join(wrong)))
        usual = self.layout
        chosen = {name: sizes.get(name) or getattr(usual, name) for name in SIZES_OF_THE_LAYOUT}
        devices = (sizes.get("nodes") or self.nodes) * self.devices_per_node
        data = max(devices // (chosen["tensor"] * chosen["pipeline"]), 1)
        steps = sizes.get("accumulation") or usual.micro_batches
        try:
            layout = usual.but(
                **chosen, data=data, global_batch=data * chosen["micro_batch"] * steps,
                sequence_parallel=usual.sequence_parallel and chosen["tensor"] > 1,
                zero=1 if data > 1 else 0,
            )  # fmt: skip
            layout.check(self.model, devices)
        except PlanError as error:
            raise RecipeError(str(error)) from error
        return replace(self, layout=layout)


def _layout(data: int, tensor: int, pipeline: int, steps: int, precision: str) -> Layout:
    """Return a layout with micro-batch 1. The fused kernel makes recompute="selective" needless."""
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
    """Return the reference case of this name."""
    if isinstance(tag, Case):
        return tag
    if tag not in CASES:
        raise RecipeError(
            _("no benchmark {tag!r}; use one of {cases}", tag=tag, cases=", ".join(CASES))
        )
    return CASES[tag]


FIXED_NAMES = ("layers", "hidden", "heads", "sequence", "tokens to report", "accepted (s)")


@explained("bench.rules")
def rules() -> pd.DataFrame:
    """Return one row per parameter: its value in the reference cases, and whether it may change."""
    import pandas as pd

    table = pd.DataFrame({CASES[tag].title: _values(CASES[tag]) for tag in ("13", "175")})
    table["rule"] = ["fixed" if name in FIXED_NAMES else "free" for name in table.index]
    table.loc["precision", "rule"] = _("at least 16 bits")
    return table.rename_axis("parameter")


def _values(one: Case) -> dict[str, object]:
    layout = one.layout
    limit_s = ACCEPTED_S.get(one.tag)
    return {
        "layers": one.model.layers,
        "hidden": one.model.hidden,
        "heads": one.model.heads,
        "sequence": one.model.sequence,
        "tokens to report": "20 million",
        "accepted (s)": f"≤ {limit_s:g}" if limit_s else _("no limit"),
        "precision": layout.precision,
        "nodes": one.nodes,
        "tensor": layout.tensor,
        "pipeline": layout.pipeline,
        "micro batch": layout.micro_batch,
        "accumulation": layout.micro_batches,
        "global batch": layout.global_batch,
    }
