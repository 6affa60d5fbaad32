"""Checks of lesson 08b, eight bits."""

from __future__ import annotations

from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.trials.judge import is_right


def ex08b_blocks(run: Any) -> None:
    """Check a matmul in eight bits with a scale for each block, and its gradients."""
    with Checklist("08b.1") as check:
        is_right(check, run, "blocks")
