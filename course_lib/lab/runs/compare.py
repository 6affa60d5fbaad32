"""Comparison of two runs: recipe, script and results, field by field."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course_lib.lab.errors import NotRecordedError
from course_lib.lab.watching.progress import value_of
from course_lib.words import _

if TYPE_CHECKING:
    import pandas as pd

    from course_lib.lab.runs.run import Run

# Not compared as fields: arguments are compared one by one, and they contain model and layout.
NOT_COMPARED = ("name", "arguments", "model", "layout", "made_by", "keywords")
# Iterations left out of the median, because the first ones set up resources for later ones.
SETTLED_AFTER = 2


@dataclass(frozen=True)
class Comparison:
    """The differences of two runs in `table`, and of their scripts in `script`."""

    table: pd.DataFrame
    script: str

    def __repr__(self) -> str:
        return _("no difference") if self.table.empty else self.table.to_string()

    def _repr_html_(self) -> str:
        return "<p>no difference</p>" if self.table.empty else str(self.table.to_html())


def compare(one: Run, other: Run) -> Comparison:
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


def fields_of(run: Run) -> dict[str, Any]:
    """Return all values of a run that can be compared with values of another run."""
    recipe = run.recipe.to_dict().items()
    table = {
        _("recipe {name}", name=name): value for name, value in recipe if name not in NOT_COMPARED
    }
    table |= {_("argument {name}", name=name): value for name, value in run.recipe.flags.items()}
    table |= {_("site {name}", name=name): value for name, value in run.site.items()}
    table |= {"state": run.state, _("exit code"): run.exit_code, _("elapsed (s)"): run.elapsed_s}
    return table | _results(run)


def _results(run: Run) -> dict[str, Any]:
    """Return results of a training run, or an empty dict for other runs."""
    try:
        iterations = run.log.iterations
    except NotRecordedError:
        return {}
    if iterations.empty:
        return {}
    settled = iterations.iloc[min(SETTLED_AFTER, len(iterations) - 1) :]
    last = iterations.iloc[-1]
    return {
        "iterations": int(last["iteration"]),
        _("median time per iteration (ms)"): float(settled["elapsed_ms"].median()),
        _("last loss"): value_of(last, "lm_loss"),
        _("skipped iterations"): run.log.skipped,
    }


def _label(run: Run, other: Run) -> str:
    return (
        run.name
        if run.name != other.name
        else _("{name} (job {job_id})", name=run.name, job_id=run.job_id)
    )
