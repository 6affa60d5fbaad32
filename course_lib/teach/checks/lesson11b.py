"""Checks of lesson 11b, torch's own tools."""

from __future__ import annotations

from course_lib.teach.trials.judge import tried

ex11b_parallelize = tried("11b.1", "parallelize")
