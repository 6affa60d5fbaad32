"""Ends jobs of a state file that was lost: nobody can see or cancel them any more."""

from __future__ import annotations

import os

from course_lib.box import settings
from course_lib.box.dispatch import launch
from course_lib.box.queue import lost_state, rows


def end(numbers: list[str]) -> None:
    """`numbers` as the new state file noted them when it was made; it forgets them here."""
    if not numbers:
        return
    for number in numbers:
        launch.end_remains(os.path.join(settings.state_home(), "jobs", number))
    with rows.transaction() as db:
        lost_state.forget_lost_jobs(db)
