"""The benchmark of lesson 15: how long a large model takes for 20 million tokens.

from course_lib import Lab, bench
bench.plan("175")                          # a plan needs no nodes
bench.script("175", "juwels-booster", partition="booster", account="me")
bench.run(Lab(), "box")                    # a real run, with a model of the box's size
"""

from course_lib.lab.bench.cases import ACCEPTED_S, CASES, Case, case, rules
from course_lib.lab.bench.jobs import jube, recipe, script
from course_lib.lab.bench.results import Result, plan, published, run, table
from course_lib.late_names import offering

__all__ = [
    "ACCEPTED_S", "CASES", "Case", "Result", "case", "jube", "plan", "published", "recipe",
    "rules", "run", "script", "table",
]  # fmt: skip
__dir__ = offering(__all__)
