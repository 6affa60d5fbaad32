"""Readers of logs, traces and measurements, which return tables and verdicts.

Names load on first use, so that `failure` alone does not import pandas."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

# Module -> its public names.
_MODULES = {
    "file_contents": "Contents contents",
    "first_causes.causes": "Failure",
    "first_causes.reader": "failure failures",
    "measurements.link_times": "Links links",
    "measurements.node_load": "Monitor monitor",
    "memory_traces.reader": "memory",
    "memory_traces.timeline": "Memory MemoryTimeline",
    "nccl_logs.reader": "NcclReader nccl",
    "nccl_logs.result": "NcclLog",
    "profiler_traces.reader": "profile",
    "profiler_traces.recommendations": "Recommendation",
    "profiler_traces.result": "Profile",
    "rank_files.attempts": "Attempts attempts",
    "rank_files.diary": "Diary DiaryFinding diary",
    "rank_files.flight": "Flight flight",
    "rank_files.stacks": "Stacks stacks",
    "training_logs.reader": "TrainingReader training_log",
    "training_logs.result": "TrainingLog World",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        text = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(text, name=name, obj=sys.modules[__name__])
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
