"""Checks of lesson 11b, torch's own tools."""

from __future__ import annotations

from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.trials.judge import is_right


def ex11b_parallelize(run: Any) -> None:
    """Check a small GPT on a mesh: parts, wrapping, logits, collectives and gradients."""
    with Checklist("11b.1") as check:
        is_right(check, run, "parallelize")
