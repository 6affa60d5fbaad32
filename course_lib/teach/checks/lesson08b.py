"""Checks of lesson 08b, eight bits."""

from __future__ import annotations

from course_lib.teach.trials.judge import tried

ex08b_blocks = tried("08b.1", "blocks")
