"""Checks of lesson 10, gradient accumulation."""

from __future__ import annotations

from course_lib.teach.trials.judge import tried

ex10_accumulate = tried("10.1", "accumulate")
