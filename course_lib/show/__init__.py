"""Figures drawn from tables. No function here opens a file of a run.

Names are imported on first use, because drawing needs pandas and matplotlib and `lab` does not.
"""

from __future__ import annotations

import sys

from course_lib.late_names import late_names

_LATE = {  # no module has a function's name: importing the module would replace the function
    "runs.curves": "loss throughput loss_scale scaling lines diary",
    "runs.bars": "step_time operators gains",
    "predictions.guesses": "predicted guess guesses",
    "predictions.plans": "goodput_curve layouts",
    "networks.measured_links": "link_heat link_curve",
    "networks.topology": "topology",
    "networks.node_parts": "node",
    "networks.rank_groups": "ranks",
    "memories.over_time": "memory memory_ranks memory_compare",
    "memories.peaks": "memory_parts memory_kinds",
    "memories.batches": "batches",
    "rounding": "number_formats",
    "pipeline_chart": "pipeline pipeline_measured schedule",
    "runs.loads": "monitor monitor_panel",
    "runs.timelines": "timeline",
    "picture": "Picture",
    "moving": "",  # itself a module
}
__getattr__, __dir__ = late_names(sys.modules[__name__], _LATE, whatever=True)
__all__ = [name for name in __dir__() if not name.startswith("_")]
