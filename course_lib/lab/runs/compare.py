"""Two runs side by side: recipe, script and results, field by field, what differs."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course_lib.lab.watching.progress import value_of

if TYPE_CHECKING:
    import pandas as pd

    from course_lib.lab.runs.outputs import RunOutputs

NOT_COMPARED = ("name", "arguments", "model", "layout", "made_by", "keywords")
"""As fields: the arguments are set side by side one by one, and tell model and layout."""
SETTLED_AFTER = 2
"""Iterations left out of the median: the first ones set up what the later ones use."""


@dataclass(frozen=True)
class Comparison:
    """`table` holds what differs; `script` the difference of the two scripts."""

    table: pd.DataFrame
    script: str

    def __repr__(self) -> str:
        return "no difference" if self.table.empty else self.table.to_string()

    def _repr_html_(self) -> str:
        return "<p>no difference</p>" if self.table.empty else str(self.table.to_html())


def compare(one: RunOutputs, other: RunOutputs) -> Comparison:
    import pandas as pd

    names = (_label(one, other), _label(other, one))
    left, right = fields_of(one), fields_of(other)
    rows = {
        key: (left.get(key), right.get(key))
        for key in dict.fromkeys([*left, *right])
        if left.get(key) != right.get(key)
    }
    table = pd.DataFrame.from_dict(rows, orient="index", columns=list(names), dtype=object)
    table.index.name = "what"
    lines = difflib.unified_diff(
        one.script.text.splitlines(), other.script.text.splitlines(), *names, lineterm="", n=0
    )
    return Comparison(table, "\n".join(lines))


def fields_of(run: RunOutputs) -> dict[str, Any]:
    """Everything about a run that can be set beside another's."""
    recipe = run.recipe.to_dict().items()
    table = {f"recipe {name}": value for name, value in recipe if name not in NOT_COMPARED}
    table |= {f"argument {name}": value for name, value in run.recipe.flags.items()}
    table |= {f"site {name}": value for name, value in run.site.items()}
    table |= {"state": run.state, "exit code": run.exit_code, "elapsed (s)": run.elapsed_s}
    return table | _results(run)


def _results(run: RunOutputs) -> dict[str, Any]:
    """Of a training run; empty for one that trained nothing."""
    iterations = run.log.iterations
    if iterations.empty:
        return {}
    settled = iterations.iloc[min(SETTLED_AFTER, len(iterations) - 1) :]
    last = iterations.iloc[-1]
    return {
        "iterations": int(last["iteration"]),
        "median time per iteration (ms)": float(settled["elapsed_ms"].median()),
        "last loss": value_of(last, "lm_loss"),
        "skipped iterations": run.log.skipped,
    }


def _label(run: RunOutputs, other: RunOutputs) -> str:
    return run.name if run.name != other.name else f"{run.name} (job {run.job_id})"
