"""Run folders as jobs leave them behind, for the tests of checks."""

from __future__ import annotations

import pytest

from course_lib.lab.queue.submission import recipe_toml
from course_lib.teach.checklist import NotYet

from .own_trials import swapped

MEMORY_LINE = (
    "[rank{rank}]: OutOfMemoryError: CPU out of memory. Tried to allocate 40.00 MiB. Rank {rank} "
    "on node1 has a total capacity of 160.00 MiB of which 35.73 MiB is free. 124.27 MiB is in "
    "use.\n"
)


class Finished:
    """`finished(recipe, log)` is the run of this recipe that printed this log."""

    def __init__(self, folder, lab):
        self.folder, self.lab, self.made = folder, lab, 0

    def __call__(self, recipe, log, exit_code=0):
        self.made += 1
        folder = self.folder / f"{recipe.name}-{self.made}"
        folder.mkdir(parents=True)
        (folder / "recipe.toml").write_text(recipe_toml(recipe, self.lab.site))
        (folder / "out.log").write_text(log)
        if exit_code is not None:
            (folder / "exit_code").write_text(f"{exit_code}\n")
        return self.lab.open(folder)


def hint_of(check, *given):
    """Return the message of a check for an unsolved exercise."""
    with pytest.raises(NotYet) as caught:
        check(*given)
    return str(caught.value)


def tried_with_swaps(text: str, exercise: str):
    """Make a fixture that replaces `tried`: a trial of the exercise's right text with some words
    swapped."""

    @pytest.fixture
    def tried(tried):
        return lambda *pairs: tried(swapped(text, *pairs), exercise)

    return tried
