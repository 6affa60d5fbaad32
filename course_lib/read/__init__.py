"""Understand: text and traces in, tables out.

Entry points are resolved on first use, so that nobody pays for pandas who only asks for a cause.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from course_lib.read.first_cause import Failure, failure, failures
    from course_lib.read.nccl_log import NcclReader, nccl
    from course_lib.read.nccl_result import NcclLog
    from course_lib.read.training import TrainingReader, training_log
    from course_lib.read.training_result import TrainingLog, World

_WHERE = {
    "Failure": "first_cause",
    "failure": "first_cause",
    "failures": "first_cause",
    "NcclLog": "nccl_result",
    "NcclReader": "nccl_log",
    "nccl": "nccl_log",
    "training_log": "training",
    "TrainingReader": "training",
    "TrainingLog": "training_result",
    "World": "training_result",
}

__all__ = [
    "Failure",
    "NcclLog",
    "NcclReader",
    "TrainingLog",
    "TrainingReader",
    "World",
    "failure",
    "failures",
    "nccl",
    "training_log",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"course_lib.read has no {name!r}; it offers: {', '.join(__all__)}")
    value = getattr(import_module(f"course_lib.read.{_WHERE[name]}"), name)
    globals()[name] = value
    return value
