"""Predict: parameters, FLOPs, memory, time and the best layout, before anything runs.

from course_lib import plan
where = plan.cluster("juwels-booster", devices=32)
run = plan.predict(plan.preset("13b"), plan.Layout(tensor=2, pipeline=4, data=4), where)
run.table()                            # time and memory by part
plan.search(run.model, where, global_batch=1024).table()
"""

import sys
from typing import TYPE_CHECKING

from course_lib.late_names import late_names
from course_lib.plan.checks import PlanError
from course_lib.plan.shapes.layout import Layout
from course_lib.plan.shapes.model import Experts, Latent, Model, Patches
from course_lib.plan.shapes.presets import PRESETS, preset

if TYPE_CHECKING:
    from course_lib.plan.code_bases import STACKS, Stack
    from course_lib.plan.estimate import Estimate, predict
    from course_lib.plan.explanation import explain
    from course_lib.plan.hardware.cluster import Cluster, Device, Link, Tier
    from course_lib.plan.hardware.machines import CLUSTERS, DEVICES, box, cluster, device
    from course_lib.plan.hardware.measured_links import with_links
    from course_lib.plan.kept_work import (
        Failures,
        checkpoint_interval,
        failures_of,
        goodput,
        goodputs,
    )
    from course_lib.plan.layout_search import Choice, search
    from course_lib.plan.logged_runs import from_log
    from course_lib.plan.nccl_logs import NcclCluster, nccl_log
    from course_lib.plan.notebook_page import page
    from course_lib.plan.scale import campaign, campaigns
    from course_lib.plan.schedules.measured import bubbles
    from course_lib.plan.shapes.flops import of_iteration, of_sequence, training_days
    from course_lib.plan.shapes.hugging_face import from_hf
    from course_lib.plan.shapes.parameter_counts import active_parameters, on_rank, parameters
    from course_lib.plan.shapes.ranks import groups
    from course_lib.plan.time.calibration import Observation, calibrate

# Names load on first use, so that code that only names a layout does not load the whole package.
_LATE = {
    "time.calibration": "Observation calibrate",
    "estimate": "Estimate predict",
    "shapes.flops": "of_iteration of_sequence training_days",
    "explanation": "explain",
    "hardware.cluster": "Cluster Device Link Tier",
    "layout_search": "Choice search",
    "logged_runs": "from_log",
    "hardware.measured_links": "with_links",
    "hardware.machines": "CLUSTERS DEVICES box cluster device",
    "schedules.measured": "bubbles",
    "nccl_logs": "NcclCluster nccl_log",
    "shapes.hugging_face": "from_hf",
    "shapes.parameter_counts": "active_parameters on_rank parameters",
    "shapes.ranks": "groups",
    "notebook_page": "page",
    "scale": "campaign campaigns",
    "kept_work": "Failures checkpoint_interval failures_of goodput goodputs",
    "code_bases": "STACKS Stack",
}

__all__ = [
    "CLUSTERS",
    "DEVICES",
    "PRESETS",
    "STACKS",
    "Choice",
    "Cluster",
    "Device",
    "Estimate",
    "Experts",
    "Failures",
    "Latent",
    "Layout",
    "Link",
    "Model",
    "NcclCluster",
    "Observation",
    "Patches",
    "PlanError",
    "Stack",
    "Tier",
    "active_parameters",
    "box",
    "bubbles",
    "calibrate",
    "campaign",
    "campaigns",
    "checkpoint_interval",
    "cluster",
    "device",
    "explain",
    "failures_of",
    "from_hf",
    "from_log",
    "goodput",
    "goodputs",
    "groups",
    "nccl_log",
    "of_iteration",
    "of_sequence",
    "on_rank",
    "page",
    "parameters",
    "predict",
    "preset",
    "search",
    "training_days",
    "with_links",
]


__getattr__, __dir__ = late_names(
    sys.modules[__name__], _LATE, __all__, only_failures=True, whatever=True
)
