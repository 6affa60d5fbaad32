"""The jobs of a workspace. One query to Slurm serves all of them, at growing intervals.

The state comes from squeue, then from sacct, then from the exit code that the script's trap wrote.
If none of these has it, the state is UNKNOWN.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from course_lib.lab.errors import LabError, SlurmError
from course_lib.lab.queue.records import Record, Registry
from course_lib.lab.queue.slurm import JobRow, Slurm, Status
from course_lib.words import _

PAUSES_S = (0.0, 2.0, 4.0, 8.0, 15.0, 30.0)
PAUSES_ON_THE_BOX_S = (0.0, 0.3, 0.5, 1.0, 1.0, 2.0)
# Time-out for a controller that is restarted or overloaded. Jobs continue meanwhile.
PATIENCE_WITH_SLURM_S = 120.0


@dataclass
class Jobs:
    """The jobs that all runs and threads of a lab share. `say` shows messages to the user."""

    registry: Registry
    pauses_s: tuple[float, ...] = PAUSES_S
    say: Callable[[str], None] = print
    slurm: Slurm = field(default_factory=Slurm)
    _rows: dict[int, JobRow] = field(default_factory=dict)
    _asked_at_s: float = -1e9
    _answered_at_s: float = -1e9
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @cached_property
    def cluster(self) -> str:
        """Return the cluster's name, because job ids of different clusters may be equal."""
        return self.slurm.cluster()

    def records(self) -> list[Record]:
        """Return all records, after an update of records whose jobs had not ended."""
        records = self.registry.all()
        if any(record.status is None for record in records):
            self.statuses(records)
            records = self.registry.all()
        return records

    def look(self, record: Record, max_age_s: float | None = None) -> tuple[Status, Record]:
        """Return the current status and record of one job."""
        if record.status is not None:
            return record.status, record
        status = self.statuses([record], max_age_s)[record.token]
        if status.ended:
            record = next((r for r in self.registry.all() if r.token == record.token), record)
        return status, record

    def cancel(self, record: Record) -> None:
        status, record = self.look(record)
        job = _("{name}: job {job_id}", name=record.name, job_id=record.job_id)
        if status.ended:
            self.say(_("{job} has ended already: {words}", job=job, words=status.words))
            return
        if not record.token or record.cluster != self.cluster:
            raise LabError(
                _(
                    "{job} was not submitted from here to this cluster, where its number "
                    "may belong to a different job. Cancel it on the cluster where it runs",
                    job=job,
                )
            )
        self.registry.update(record, cancel_asked=True)
        self.slurm.cancel([record.job_id])
        self.forget()
        self.say(_("{job} is being cancelled", job=job))

    def pause_s(self, looks: int) -> float:
        """Return the pause before a query with this number (0, 1, 2 …)."""
        return self.pauses_s[min(looks, len(self.pauses_s) - 1)]

    def statuses(
        self, records: Iterable[Record], max_age_s: float | None = None
    ) -> dict[str, Status]:
        """Return status by token, with at most one squeue and one sacct for all open jobs."""
        if max_age_s is None:  # an occasional query
            max_age_s = self.pause_s(1)
        table = {record.token: record.status for record in records}
        open_records = [record for record in records if table[record.token] is None]
        if open_records:
            with self._lock:
                self._look(max_age_s)
                table |= self._judge(open_records)
        return {token: status or Status() for token, status in table.items()}

    def forget(self) -> None:
        """Make the next query go to Slurm, after a submission, release or cancellation."""
        self._asked_at_s = -1e9

    def _look(self, max_age_s: float) -> None:
        if time.monotonic() - self._asked_at_s < max_age_s:
            return
        self._asked_at_s = time.monotonic()
        try:
            self._rows = {row.job_id: row for row in self.slurm.queue()}
            self._answered_at_s = time.monotonic()
        except SlurmError:
            if time.monotonic() - self._answered_at_s > PATIENCE_WITH_SLURM_S:
                raise

    def _judge(self, records: list[Record]) -> dict[str, Status]:
        here = [record for record in records if record.cluster == self.cluster]
        found = {record.token: _listed(record, self._rows) for record in here}
        unseen = [record for record in here if found[record.token] is None]
        if unseen:
            accounts = self.slurm.accounting([record.job_id for record in unseen])
            found |= {record.token: _listed(record, accounts) for record in unseen}
        return {
            record.token: self._settled(record, found.get(record.token) or self._from_files(record))
            for record in records
        }

    def _from_files(self, record: Record) -> Status:
        code = self.registry.paths(record).read_exit_code()
        if code is not None:
            state = "COMPLETED" if code == 0 else "FAILED"
            if record.cancel_asked and code:
                state = "CANCELLED"
            return Status(state=state, exit_code=code, source="exit_code")
        if record.cancel_asked:
            return Status(state="CANCELLED", source="record")
        return Status()

    def _settled(self, record: Record, status: Status) -> Status:
        """Save a final status, because Slurm forgets its jobs after some minutes."""
        if status.ended:
            if status.exit_code is None:
                status = replace(status, exit_code=self.registry.paths(record).read_exit_code())
            self.registry.settle(record, status)
        return status


def _listed(record: Record, rows: Mapping[int, JobRow]) -> Status | None:
    """Return the status of a record's job. A job with its id but another mark, or another name if
    there are no marks, belongs to another cluster, or to a box that was created again."""
    row = rows.get(record.job_id)
    if row is None or (row.comment != record.mark if row.comment else row.name != record.name):
        return None
    return row.status
