"""The result of a case: planned, published or measured, in one form and one table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from course_lib.lab.bench.cases import (
    ACCEPTED_S,
    PUBLISHED_TOKENS_PER_S,
    TOKENS_TO_REPORT,
    Case,
    case,
    time_to_report_s,
)
from course_lib.lab.bench.jobs import recipe
from course_lib.lab.errors import LabError, RecipeError
from course_lib.lab.job.recipes import gpt
from course_lib.lab.job.unfinished import Unfinished
from course_lib.lab.runs.run import Run
from course_lib.mistakes.arguments import explained
from course_lib.plan import Estimate, cluster, predict

if TYPE_CHECKING:
    import pandas as pd

    from course_lib.lab.lab import Lab

STACK = "megatron-2023"
"""What the published results were measured with: sequence parallelism, the first fused kernel."""


@dataclass(frozen=True)
class Result:
    """`how` is "planned", "published" or "measured"; `where` names the machine; `low_s` and
    `high_s` bound the time to report of a plan in four of five cases."""

    case: Case
    how: str
    where: str
    tokens_per_s: float
    low_s: float | None = None
    high_s: float | None = None
    estimate: Estimate | None = None
    run: Run | None = None

    @property
    def time_to_report_s(self) -> float:
        return time_to_report_s(self.tokens_per_s)

    @property
    def iteration_s(self) -> float:
        return self.case.tokens_per_iteration / self.tokens_per_s

    @property
    def accepted(self) -> bool | None:
        """None where the rules set no limit: only the large model counts."""
        limit_s = ACCEPTED_S.get(self.case.tag)
        return None if limit_s is None else self.time_to_report_s <= limit_s

    @property
    def row(self) -> dict[str, Any]:
        layout = self.case.layout
        return {
            "model": self.case.title,
            "nodes": self.case.nodes,
            "batch": layout.global_batch,
            "pipeline": layout.pipeline,
            "tensor": layout.tensor,
            "tokens/s": round(self.tokens_per_s, 2),
            "time to report (s)": round(self.time_to_report_s, 2),
            "how": f"{self.how}, {self.where}",
        }

    @property
    def table(self) -> pd.DataFrame:
        return table([self])

    def _repr_html_(self) -> str:
        return str(self.table._repr_html_())  # type: ignore[operator]

    def __repr__(self) -> str:
        row = self.row
        return ", ".join(f"{name} {value}" for name, value in row.items())


@explained("bench.table", whatever=True)
def table(results: Iterable[Result | Unfinished]) -> pd.DataFrame:
    """The result table of the benchmark, one row per result that there is."""
    import pandas as pd

    rows = [result.row for result in results if isinstance(result, Result)]
    return pd.DataFrame(rows).set_index("model")


@explained("bench.published", whatever=True)
def published(tag: str | Case) -> Result | None:
    """What was published for this layout on so many nodes, if anything."""
    one = case(tag)
    rate = PUBLISHED_TOKENS_PER_S.get((one.tag, one.nodes)) if one.is_layout_of_reference else None
    return None if rate is None else Result(one, "published", one.machine, rate)


@explained("bench.plan", whatever=True)
def plan(tag: str | Case, machine: str = "") -> Result:
    """What the planner expects, on the machine of the published result or another one."""
    one = case(tag)
    where = machine or one.machine
    if where == "box":
        raise RecipeError(
            "the speed of the box is that of the machine it runs on: the planner must be "
            "calibrated first, and running takes seconds; use run(lab, 'box')"
        )
    there = cluster(where, one.layout.devices)
    one = replace(one, devices_per_node=there.devices_per_node)
    estimate = predict(one.model, one.layout, there, STACK)
    shares = [bound / estimate.seconds for bound in estimate.interval]
    report_s = estimate.seconds_for(TOKENS_TO_REPORT)
    return Result(
        one, "planned", where, estimate.tokens_per_s, report_s * shares[0], report_s * shares[1],
        estimate,
    )  # fmt: skip


@explained("bench.run", whatever=True, takes_gaps=True)
def run(
    lab: Lab, tag: str | Case | Unfinished, *, program: str = gpt.PROGRAM, **more: Any
) -> Any:  # fmt: skip
    """Runs a case at the lab's site and waits for its Result; of a case with gaps nothing is run.
    On the box only its own case fits."""
    if isinstance(tag, Unfinished):
        print(tag)
        return tag
    one = case(tag)
    if lab.site.box and one.tag != "box":
        raise RecipeError(
            f"the box has no {one.layout.devices} devices for {one.title}: use plan({one.tag!r}), "
            "or run(lab, 'box') for a model of its size"
        )
    done = lab.submit(recipe(one, program=program, **more))
    assert isinstance(done, Run)  # the recipe of a case has no gaps
    return measured(one, done.require())


def measured(tag: str | Case, done: Run) -> Result:
    """The rate of a run that has ended: over all iterations but those of the first line, in which
    memory is taken and connections are made."""
    one, iterations = case(tag), done.log.iterations
    times_ms = iterations["elapsed_ms"].dropna()[1:]
    if not len(times_ms):
        raise LabError(
            f"{done.log_file} has fewer than two lines with a time per iteration, too few for a "
            "rate; run more iterations, or log more often"
        )
    batch = int(iterations["global_batch_size"].iloc[-1])
    rate = batch * one.model.sequence / (float(times_ms.mean()) / 1e3)
    return Result(one, "measured", done.site.get("name", "here"), rate, run=done)
