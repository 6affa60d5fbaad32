"""What `--dependency` waits for, judged from the other jobs' rows."""

from __future__ import annotations

import time

from course_lib.box.queue import rows
from course_lib.box.queue.records import COMPLETED, FINAL_STATES, PENDING, Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection

KINDS = ("after", "afterany", "afternotok", "afterok", "aftercorr", "afterburstbuffer")
READY, WAITING, NEVER = "ready", "waiting", "never"


PROBLEM = "Job dependency problem"


class DependencyError(ValueError):
    """Not a dependency; Slurm's words for why."""


def parse(text: str) -> tuple[list[tuple[str, int, int]], bool]:
    """Conditions as (kind, job id, delay in minutes), and whether any one of them is enough."""
    either = "?" in text
    if either and "," in text:
        raise DependencyError(PROBLEM)
    found: list[tuple[str, int, int]] = []
    for part in text.split("?" if either else ","):
        kind, *numbers = part.split(":")
        kind = kind.lower()
        if kind == "singleton" and not numbers:
            found.append((kind, 0, 0))
            continue
        if kind.isdigit() and not numbers:
            kind, numbers = "afterany", [kind]
        if kind == "expand" and numbers:
            raise DependencyError("Requested operation not supported on this system")
        if kind not in KINDS or not numbers:
            raise DependencyError(PROBLEM)
        for number in numbers:
            job_id, plus, delay = number.partition("+")
            if not job_id.isdigit() or int(job_id) == 0 or (plus and not delay.isdigit()):
                raise DependencyError(PROBLEM)
            condition = (kind, int(job_id), int(delay or 0))
            if condition not in found:
                found.append(condition)
    return found, either


def judge(db: Connection, job: Job) -> tuple[str, str]:
    """Ready, waiting or never, and the text that squeue and scontrol show."""
    if not job.dependency:
        return READY, ""
    conditions, either = parse(job.dependency)
    verdicts = [_judge_one(db, job, condition) for condition in conditions]
    shown = [
        _text(condition, verdict)
        for condition, verdict in zip(conditions, verdicts, strict=True)
        if verdict != READY
    ]
    text = ("?" if either else ",").join(shown)
    decisive = (READY, WAITING, NEVER) if either else (NEVER, WAITING, READY)
    verdict = next(value for value in decisive if value in verdicts)
    return verdict, "" if verdict == READY else text


def shown(db: Connection, job: Job) -> str:
    """What a waiting job waits for. For a held one Slurm does not look: all is unfulfilled."""
    if not job.dependency or job.state != PENDING:
        return ""
    if not job.hold:
        return judge(db, job)[1]
    conditions, either = parse(job.dependency)
    return ("?" if either else ",").join(_text(one, WAITING) for one in conditions)


def _text(condition: tuple[str, int, int], verdict: str) -> str:
    kind, job_id, delay = condition
    state = "failed" if verdict == NEVER else "unfulfilled"
    number = "" if kind == "singleton" else f":{job_id}" + (f"+{delay}" if delay else "")
    return f"{kind}{number}({state})"


def _judge_one(db: Connection, job: Job, condition: tuple[str, int, int]) -> str:
    kind, other_id, delay_min = condition
    if kind == "singleton":
        where = (
            "name = ? AND uid = ? AND id < ? AND (state IN ('PENDING', 'RUNNING') OR completing)"
        )
        return WAITING if rows.jobs(db, where, (job.name, job.uid, job.id)) else READY
    found = rows.jobs(db, "id = ?", (other_id,))
    if not found:
        return READY  # Slurm takes a job that it no longer knows for one that ended well
    other = found[0]
    if kind == "after":
        begun = other.state != PENDING and other.start_s + delay_min * 60 <= time.time()
        return READY if begun else WAITING
    if other.state not in FINAL_STATES or other.completing:
        return WAITING
    succeeded = other.state == COMPLETED
    wanted = {"afterok": True, "aftercorr": True, "afternotok": False}.get(kind, succeeded)
    return READY if succeeded == wanted else NEVER
