"""Tables in, pictures out. Nothing here opens a file of a run.

Names resolve on first use, because drawing needs pandas and matplotlib and `lab` does not.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_WHERE = {  # no module is named like a function: importing it would take the name
    "runs.curves": ("loss", "throughput", "loss_scale", "scaling"),
    "runs.bars": ("step_time", "operators"),
    "predictions.guesses": ("predicted", "guess"),
    "predictions.layout_points": ("layouts",),
    "networks.measured_links": ("link_heat", "link_curve"),
    "networks.topology": ("topology",),
    "networks.rank_groups": ("ranks",),
    "memories.over_time": ("memory", "memory_ranks", "memory_compare"),
    "memories.peaks": ("memory_parts", "memory_kinds"),
    "memories.batches": ("batches",),
    "pipelines.drawing": ("pipeline", "pipeline_measured", "schedule"),
    "runs.loads": ("monitor", "monitor_panel"),
    "runs.timelines": ("timeline",),
    "picture": ("Picture",),
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names}
_MODULE_OF["moving"] = ""  # itself a module
__all__ = list(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"show has no {name!r}; it draws: {', '.join(__all__)}")
    if not _MODULE_OF[name]:
        return import_module(f"course_lib.show.{name}")
    return getattr(import_module(f"course_lib.show.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
