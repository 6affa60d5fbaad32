"""One command of scontrol, and the jobs that it is about."""

from __future__ import annotations

import sys

from course_lib.box.commands.shared import job_words
from course_lib.box.dispatch import passes, upkeep
from course_lib.box.queue import arrays, rows
from course_lib.box.queue.records import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

UNKNOWN_JOB = "Invalid job id specified"
ENDED = "Job has already finished"


class ScontrolCall:
    """What is left of the command line, with the switches of the output."""

    def __init__(self, words: list[str], options: dict[str, str]) -> None:
        self.words = words
        self.one_line = "oneliner" in options
        self.details = "details" in options
        self.quiet = "quiet" in options

    def each_job(self, act: Callable[[Job], str], prefix: str = "") -> int:
        """Changes every job named by number (`1,2`) or name; `act` says what is in the way."""
        if len(self.words) < 2:
            return complain(f"too few arguments for keyword:{self.words[0]}")
        upkeep.bring_up_to_date()
        code = 0
        for given in job_words.split(",".join(self.words[1:])):
            key, equals, value = given.partition("=")
            word = value if equals and "jobid".startswith(key.lower()) and len(key) > 2 else given
            jobs = _named(word)
            several = "_" in word or len(jobs) > 1
            for trouble in filter(None, map(act, jobs) if jobs else [UNKNOWN_JOB]):
                if not self.quiet:
                    complain(f"{word}: {trouble}" if several else f"{trouble} for job {word}")
                    if prefix and not several:
                        complain(f"{prefix} error: {trouble}")
                code = 1
        passes.run_pass()
        return code


def complain(text: str) -> int:
    print(text, file=sys.stderr)
    return 1


def _named(word: str) -> list[Job]:
    meant = job_words.read(word)
    if meant is not None and meant.tasks is not None:
        with rows.transaction() as db:
            return arrays.split_off(db, meant.job_id, meant.tasks)
    with rows.snapshot() as db:
        if meant is not None:
            return arrays.members(db, meant.job_id)
        key, _, value = word.partition("=")
        name = value if key.lower() in ("name", "jobname") else ""
        return rows.jobs(db, "name = ? AND state = 'PENDING'", (name,)) if name else []
