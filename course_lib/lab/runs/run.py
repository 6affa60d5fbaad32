"""What happened: one submitted job and its folder."""

from __future__ import annotations

import time
import tomllib
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.lab.errors import DeletedRunError, RunFailedError, StillRunningError
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.script import Script
from course_lib.lab.queue import states
from course_lib.lab.queue.records import Record

if TYPE_CHECKING:
    from course_lib.lab.lab import Lab
    from course_lib.lab.runs.compare import Comparison

LAST_LINES = 15
GLANCE_S = 0.1
"""How often `wait` looks for the exit code file, which costs nothing."""
PATIENCE_WITH_UNKNOWN_S = 10.0


class Run:
    """`state` is Slurm's word, `reason` says it in ours; `log`, `memory`, `profile`, `links`,
    `nccl` and `monitor` are what the run left behind, as data."""

    def __init__(self, lab: Lab, record: Record):
        self._lab, self._record = lab, record
        self._read: dict[str, tuple[object, Any]] = {}

    def __repr__(self) -> str:
        return f"<Run {self.name}, job {self.job_id}: {self.reason}>"

    @property
    def name(self) -> str:
        return self._record.name

    @property
    def job_id(self) -> int:
        return self._record.job_id

    @property
    def folder(self) -> Path:
        return self._lab.workspace.runs / self._record.folder

    @property
    def log_file(self) -> Path:
        return self.folder / "out.log"

    @property
    def deleted(self) -> bool:
        return not self.folder.is_dir()

    @cached_property
    def recipe(self) -> Recipe:
        return Recipe.from_toml(self._kept("recipe.toml").read_text(encoding="utf-8"))

    @cached_property
    def site(self) -> dict[str, Any]:
        """The site as it was when this was submitted."""
        table = tomllib.loads(self._kept("recipe.toml").read_text(encoding="utf-8"))
        return dict(table.get("site", {}))

    @cached_property
    def script(self) -> Script:
        return Script(self.name, self._kept("job.sbatch").read_text(encoding="utf-8"))

    @property
    def status(self) -> states.Status:
        """Where the job stands; one answer of Slurm serves all that ask within a moment."""
        return self._look()

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
    def devices(self) -> int:
        return self._record.devices

    @property
    def device_hours(self) -> float:
        self._look()
        return self._record.device_hours

    @property
    def text(self) -> str:
        """The log as it stands; empty before the job has started."""
        try:
            return self.log_file.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def tail(self, lines: int = LAST_LINES) -> str:
        """The last lines of the log, read from its end: logs may be large."""
        try:
            with self.log_file.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - 400 * lines))
                text = file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def wait(self, timeout_s: float | None = None) -> str:
        """The state in which the run ended. A timeout leaves the job alone and says so."""
        start_s, looks, unknown_since_s = time.monotonic(), 0, None
        while True:
            status = self._look(0.0 if looks else 0.2)
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
            self.pause(min(self._lab.pause_s(looks), max(left_s, 0)))

    def pause(self, seconds: float) -> None:
        """Waits for the next look at Slurm, or less long if the exit code appears before."""
        end_s = time.monotonic() + seconds
        marker = self.folder / "exit_code"
        if marker.exists():
            time.sleep(min(seconds, 2 * GLANCE_S))
            return
        while (left_s := end_s - time.monotonic()) > 0 and not marker.exists():
            time.sleep(min(GLANCE_S, left_s))

    def pause_until_look_s(self, looks: int) -> float:
        return self._lab.pause_s(looks)

    def require(self, timeout_s: float | None = None) -> Run:
        """Waits, and raises with the cause if the run did not end well."""
        if self.wait(timeout_s) not in states.ENDED_WELL:
            raise RunFailedError(self.error)
        return self

    def watch(self, timeout_s: float | None = None) -> None:
        """Shows the run until it has ended: a panel in a notebook, lines in a terminal."""
        from course_lib.lab.runs.watch import watch

        watch(self, timeout_s)

    def cancel(self) -> None:
        self._lab.cancel(self)

    def compare(self, other: Run) -> Comparison:
        """Recipe, script and results, field by field: what differs."""
        from course_lib.lab.runs.compare import compare

        return compare(self, other)

    @property
    def error(self) -> str:
        """Empty unless the run ended badly: what happened, its cause, the end of its log."""
        status = self.status
        if status.state in states.ENDED_WELL or not (status.ended or status.state == "UNKNOWN"):
            return ""
        text = f"{self.name} (job {self.job_id}) {status.words}."
        if cause := self.failure:
            text += f"\n\n{cause}"
        if tail := self.tail():
            indented = "\n".join(f"  {line}" for line in tail.splitlines())
            return f"{text}\n\nThe last lines of {self.log_file}:\n{indented}"
        return f"{text}\n\nIt printed nothing ({self.log_file})."

    @property
    def failure(self) -> Any:
        """The first cause of a failed run, or None."""
        return self._reader("failure", self.log_file) if self.log_file.exists() else None

    @property
    def log(self) -> Any:
        """The training log as tables: `log.world`, `log.iterations`, `log.evaluations` …"""
        return self._reader("training_log", self._kept("out.log"))

    @property
    def nccl(self) -> Any:
        return self._reader("nccl", self._kept("out.log"))

    @property
    def memory(self) -> Any:
        return self._reader("memory", self._kept("memory"))

    @property
    def profile(self) -> Any:
        return self._reader("profile", self._kept("profile"))

    @property
    def links(self) -> Any:
        return self._reader("links", self._kept("links.json"))

    @property
    def monitor(self) -> Any:
        return self._reader("monitor", self._kept("monitor"))

    def _kept(self, part: str) -> Path:
        if self.deleted:
            raise DeletedRunError(
                f"{self.name} (job {self.job_id}) was deleted, {part} with it: {self.folder} is "
                "gone. Run the cell that submits it once more; it makes a new run"
            )
        return self.folder / part

    def _reader(self, name: str, path: Path) -> Any:
        """What a reader makes of a file or folder, kept until that changes."""
        from course_lib import read

        stamp = _stamp(path)
        if name not in self._read or self._read[name][0] != stamp:
            self._read[name] = (stamp, getattr(read, name)(path))
        return self._read[name][1]

    def _look(self, max_age_s: float | None = None) -> states.Status:
        status, self._record = self._lab.look(self._record, max_age_s)
        return status


def _stamp(path: Path) -> object:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    stats = [(file.name, file.stat()) for file in files if file.exists()]
    return [(name, stat.st_mtime_ns, stat.st_size) for name, stat in stats]
