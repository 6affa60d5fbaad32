"""The result of a case: planned, published or measured, in the same form and table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from course_lib.lab.bench.cases import (
    ACCEPTED_S,
    CASES,
    PUBLISHED_TOKENS_PER_S,
    TOKENS_TO_REPORT,
    Case,
    case,
)
from course_lib.lab.bench.jobs import recipe
from course_lib.lab.errors import LabError
from course_lib.lab.job.recipes import gpt
from course_lib.lab.job.unfinished import Unfinished
from course_lib.lab.runs.run import Run
from course_lib.mistakes.arguments import explained
from course_lib.plan import Estimate, cluster, predict
from course_lib.words import _

if TYPE_CHECKING:
    import pandas as pd

    from course_lib.lab.lab import Lab

# Software of the published results: sequence parallelism and the first fused kernel.
STACK = "megatron-2023"


@dataclass(frozen=True)
class Result:
    """The result of a case. `how` is "planned", "published" or "measured"; `where` is the machine.
    In four of five cases, the time to report lies between a plan's `low_s` and `high_s`."""

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
        """Return the seconds that 20 million tokens would take at this rate."""
        return TOKENS_TO_REPORT / self.tokens_per_s

    @property
    def iteration_s(self) -> float:
        tokens = self.case.layout.global_batch * self.case.model.sequence
        return tokens / self.tokens_per_s

    @property
    def accepted(self) -> bool | None:
        """Return whether the result is accepted, or None if the model has no limit."""
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
    """Return the result table of the benchmark with one row per result."""
    import pandas as pd

    rows = [result.row for result in results if isinstance(result, Result)]
    return pd.DataFrame(rows).set_index("model")


@explained("bench.published", whatever=True)
def published(tag: str | Case) -> Result | None:
    """Return the published result for this layout and number of nodes, or None."""
    one = case(tag)
    rate = PUBLISHED_TOKENS_PER_S.get((one.tag, one.nodes))
    if rate is None or one != CASES[one.tag].but(nodes=one.nodes):
        return None
    return Result(one, "published", one.machine, rate)


@explained("bench.plan", whatever=True)
def plan(tag: str | Case, machine: str = "") -> Result:
    """Return the planner's estimate for the machine of the published result or for `machine`."""
    one = case(tag)
    where = machine or one.machine
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
    """Run a case at the lab's site and return its Result. The box can run only its own case."""
    if isinstance(tag, Unfinished):
        print(tag)
        return tag
    one = case(tag)
    done = lab.submit(recipe(one, program=program, **more))
    assert isinstance(done, Run)  # the recipe of a case has no gaps
    return measured(one, done.require())


def measured(tag: str | Case, done: Run) -> Result:
    """Return the rate of an ended run. The first line of iterations is excluded, because it
    includes memory allocation and connection setup."""
    one, iterations = case(tag), done.log.iterations
    times_ms = iterations["elapsed_ms"].dropna()[1:]
    if not len(times_ms):
        raise LabError(
            _(
                "{log_file} has fewer than two lines with a time per iteration. Run "
                "more iterations, or log more often",
                log_file=done.log_file,
            )
        )
    batch = int(iterations["global_batch_size"].iloc[-1])
    rate = batch * one.model.sequence / (float(times_ms.mean()) / 1e3)
    return Result(one, "measured", done.site.get("name", "here"), rate, run=done)
