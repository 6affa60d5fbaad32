"""Checks of lesson 14b, size and tokens of a training run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from course_lib.teach.checklist import Checklist
from course_lib.teach.trials.judge import tried
from course_lib.words import _

# Allowed factor between the chosen and the fitted number of parameters.
NEAR = 1.5


def ex14b_budget(width: object, tokens: object, best: Mapping[float, float], budget: float) -> None:
    """Check the size by the line through the best sizes of other budgets, and 6 N D."""
    with Checklist("14b.1") as check:
        given = check.number(width, "width")
        count, last = 3 * given**2 + 256 * given, max(best)
        slope, start = np.polyfit(np.log([*best]), np.log([*best.values()]), 1)
        is_near = {
            name: 1 / NEAR < count / size < NEAR
            for name, size in {"fitted": np.exp(start + slope * np.log(budget)),
                               "same": best[last], "linear": best[last] * budget / last}.items()
        }  # fmt: skip
        hint = (
            _("A model of this width has {count:,.0f} parameters: 256 w + 3 w².", count=count)
            if given > 1000 else
            _("That is the best size for a smaller budget.") if is_near["same"] else
            _(
                "This size grows in proportion to the compute. The number of tokens must grow too."
            ) if is_near["linear"]
            else _("Continue the straight line through the logarithms of the best sizes.")
        )  # fmt: skip
        check.that(is_near["fitted"], _("the size continues the line of the best sizes"), hint=hint)
        spent = check.number(tokens, "tokens") * 6 * count / budget
        hint = _(
            "6 N D is {spent:.2f} times the budget. Training takes 2 + 4 FLOPs per parameter and "
            "token.",
            spent=spent,
        )
        check.that(abs(spent - 1) < 0.03, _("size and tokens use up the budget exactly"), hint=hint)


ex14b_packed = tried("14b.2", "packing")
