"""One submitted job: where it stands, and waiting for its end."""

from __future__ import annotations

import time
from pathlib import Path

from course_lib.lab.errors import StillRunningError
from course_lib.lab.job.run_paths import RunPaths
from course_lib.lab.queue import states
from course_lib.lab.queue.jobs import Jobs
from course_lib.lab.queue.records import Record
from course_lib.lab.watching.sign_of_life import SignOfLife

GLANCE_S = 0.1
"""How often `wait` looks for the exit code file, which costs nothing."""
PATIENCE_WITH_UNKNOWN_S = 10.0
SIGN_EVERY_S = 1.0


class FollowedJob:
    """`state` is Slurm's word, `reason` says it in ours."""

    def __init__(self, jobs: Jobs, record: Record):
        self._jobs, self._record = jobs, record

    def __repr__(self) -> str:
        origin = f", {self.origin}" if self.origin else ""
        return f"<Run {self.name}, job {self.job_id}: {self.reason}{origin}>"

    @property
    def name(self) -> str:
        return self._record.name

    @property
    def job_id(self) -> int:
        return self._record.job_id

    @property
    def submitted_unix_s(self) -> float:
        return self._record.submitted_unix_s

    @property
    def paths(self) -> RunPaths:
        return self._jobs.registry.paths(self._record)

    @property
    def folder(self) -> Path:
        return self.paths.folder

    @property
    def log_file(self) -> Path:
        return self.paths.log

    @property
    def status(self) -> states.Status:
        """Where the job stands; one answer of Slurm serves all that ask within a moment."""
        return self.look()

    @property
    def state(self) -> str:
        return self.status.state

    @property
    def reason(self) -> str:
        return self.status.words

    @property
    def ended(self) -> bool:
        return self.status.ended

    @property
    def ok(self) -> bool:
        return self.state in states.ENDED_WELL

    @property
    def exit_code(self) -> int | None:
        return self.status.exit_code

    @property
    def elapsed_s(self) -> float | None:
        return self.status.elapsed_s

    @property
    def origin(self) -> str:
        """Of a run that was recorded elsewhere: when and on what machine; else empty."""
        return self._record.origin

    @property
    def devices(self) -> int:
        return self._record.devices

    @property
    def device_hours(self) -> float:
        self.look()
        return self._record.device_hours

    def look(self, max_age_s: float | None = None) -> states.Status:
        """The status, no older than this."""
        status, self._record = self._jobs.look(self._record, max_age_s)
        return status

    def wait(self, timeout_s: float | None = None) -> str:
        """The state in which the run ended. A timeout leaves the job alone and says so."""
        sign = SignOfLife(self)
        try:
            return self._wait(timeout_s, sign)
        finally:
            sign.close()

    def _wait(self, timeout_s: float | None, sign: SignOfLife) -> str:
        start_s, looks, unknown_since_s = time.monotonic(), 0, None
        while True:
            status = self.look(0.0 if looks else 0.2)
            sign.show(status)
            now_s = time.monotonic()
            if status.ended:
                return status.state
            if status.state == states.UNKNOWN:
                unknown_since_s = unknown_since_s or now_s
                if now_s - unknown_since_s > PATIENCE_WITH_UNKNOWN_S:
                    return status.state
            looks += 1
            if timeout_s is not None and now_s - start_s >= timeout_s:
                raise StillRunningError(
                    f"{self.name} (job {self.job_id}) has not ended after {timeout_s:g} s: it is "
                    f"{status.words}. It goes on; run.watch() shows it, run.cancel() ends it"
                )
            left_s = float("inf") if timeout_s is None else start_s + timeout_s - now_s
            self._pause_with(sign, status, min(self.pause_until_look_s(looks), max(left_s, 0)))

    def _pause_with(self, sign: SignOfLife, status: states.Status, seconds: float) -> None:
        """A cluster is asked every half a minute, and nobody is left without a sign so long."""
        end_s = time.monotonic() + seconds
        while True:
            sign.show(status)
            left_s = max(0.0, end_s - time.monotonic())
            self.pause(min(left_s, SIGN_EVERY_S))
            if left_s <= SIGN_EVERY_S or self.paths.exit_code.exists():
                return

    def pause(self, seconds: float) -> None:
        """Waits for the next look at Slurm, or less long if the exit code appears before."""
        end_s = time.monotonic() + seconds
        marker = self.paths.exit_code
        if marker.exists():
            time.sleep(min(seconds, 2 * GLANCE_S))
            return
        while (left_s := end_s - time.monotonic()) > 0 and not marker.exists():
            time.sleep(min(GLANCE_S, left_s))

    def pause_until_look_s(self, looks: int) -> float:
        return self._jobs.pause_s(looks)

    def cancel(self) -> None:
        self._jobs.cancel(self._record)
