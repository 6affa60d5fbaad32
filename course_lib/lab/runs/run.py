"""A submitted job and its folder, as a notebook uses them."""

from __future__ import annotations

import time
from functools import cached_property
from pathlib import Path
from typing import Any

from course_lib.lab.errors import (
    NotRecordedError,
    RecipeError,
    RunFailedError,
    UnknownRunError,
)
from course_lib.lab.job.recipe import Recipe, parse_toml, read_text
from course_lib.lab.job.script import Script
from course_lib.lab.queue.jobs import Jobs
from course_lib.lab.queue.records import Record
from course_lib.lab.queue.slurm import ENDED_BADLY, ENDED_FROM_OUTSIDE, ENDED_WELL, UNKNOWN, Status
from course_lib.lab.recorded.machine import recorded_words
from course_lib.lab.watching import progress, watch
from course_lib.lab.workspace import RunPaths, plain
from course_lib.mistakes.arguments import explained_methods
from course_lib.mistakes.names import suggests_similar_names
from course_lib.words import N_, _

# Interval at which `wait` checks for the exit code file. The check costs almost nothing.
GLANCE_S = 0.1


LAST_LINES, LONG_LINE_BYTES = 15, 400
OUT_OF_MEMORY = {"device_limit", "cuda_oom", "cpu_oom"}
ASK = N_("submit run.recipe.but({0}=True); a run that fails early may not write it")
# Records by name in the run folder: their label, and which runs write them.
RECORDED = {
    "out": ("log", ""),
    "memory": (N_("memory trace"), ASK.format("memory")),
    "profile": ("profile", ASK.format("profile")),
    "diary": ("diary", ASK.format("diary")),
    "flight": (
        N_("flight record"),
        N_(
            'submit a recipe with environment={"TORCH_FR_BUFFER_SIZE": "200"}; '
            "each rank writes the record when the run fails"
        ),
    ),
    "monitor": ("load", ASK.format("monitor")),
    "links": (N_("times of links"), N_("submit a links.recipe(…)")),
}


def _record(name: str, place: str = "") -> Any:
    """Return a property that reads a record in the run folder with the function `read.<name>`."""
    return property(lambda run: run._reader(name, run._recorded(vars(run.paths)[place or name])))


@suggests_similar_names
@explained_methods("run", "require", "wait", "watch", "tail", "cancel")
class Run:
    """A submitted run. `state` is Slurm's word, and `reason` explains it. `log`, `memory`,
    `profile`, `links`, `nccl` and `monitor` return the run's records as data."""

    def __init__(self, jobs: Jobs, record: Record):
        self._jobs, self._record = jobs, record
        # A reader's result is kept until the file or folder that it read changes.
        self._read: dict[str, tuple[object, Any]] = {}

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
    def title(self) -> str:
        """Return the name and the number, as sentences about the run begin."""
        return _("{name} (job {job_id})", name=self.name, job_id=self.job_id)

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
    def status(self) -> Status:
        """Return the state of the job. Calls within a moment share one answer of Slurm."""
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
        return self.state in ENDED_WELL

    @property
    def exit_code(self) -> int | None:
        return self.status.exit_code

    @property
    def elapsed_s(self) -> float | None:
        return self.status.elapsed_s

    @property
    def origin(self) -> str:
        """Return date and machine of a run that was recorded elsewhere, otherwise ""."""
        return recorded_words(self._record.origin)

    @property
    def devices(self) -> int:
        return self._record.devices

    @property
    def device_hours(self) -> float:
        self.look()
        return self._record.device_hours

    def look(self, max_age_s: float | None = None) -> Status:
        """Return the status, at most `max_age_s` old."""
        status, self._record = self._jobs.look(self._record, max_age_s)
        return status

    def wait(self, timeout_s: float | None = None) -> str:
        """Wait for the end and return the final state. A changing line shows the progress. A
        time-out is reported and does not stop the job."""
        return watch.wait(self, timeout_s).state

    def pause(self, seconds: float) -> None:
        """Wait until the next query to Slurm, or until the exit code appears."""
        end_s = time.monotonic() + seconds
        marker = self.paths.exit_code
        if marker.exists():
            time.sleep(min(seconds, 2 * GLANCE_S))
            return
        while (left_s := end_s - time.monotonic()) > 0 and not marker.exists():
            time.sleep(min(GLANCE_S, left_s))

    def cancel(self) -> None:
        self._jobs.cancel(self._record)

    def require(self, timeout_s: float | None = None) -> Run:
        """Wait, and raise an error with the cause if the run did not succeed."""
        if self.wait(timeout_s) not in ENDED_WELL:
            raise RunFailedError(self.error)
        return self

    @property
    def fits(self) -> bool:
        """Wait, and return whether the memory was enough. If the run failed for another reason,
        raise its error."""
        is_ok = self.wait() in ENDED_WELL
        if not is_ok and not self.ran_out:
            raise RunFailedError(self.error)
        return is_ok

    @property
    def ran_out(self) -> bool:
        """Return whether the run ended because its devices ran out of memory."""
        failure = None if self.ok else self.failure
        return failure is not None and failure.cause in OUT_OF_MEMORY

    def watch(self, timeout_s: float | None = None) -> None:
        """Show the run until it ends: a panel in a notebook, lines in a terminal."""
        watch.watch(self, timeout_s)

    @property
    def deleted(self) -> bool:
        return not self.folder.is_dir()

    @cached_property
    def recipe(self) -> Recipe:
        return Recipe.from_dict(self._asked.get("recipe", self._asked))

    @cached_property
    def site(self) -> dict[str, Any]:
        """Return the site as it was when this run was submitted."""
        return dict(self._asked.get("site", {}))

    @cached_property
    def _asked(self) -> dict[str, Any]:
        path = self._kept(self.paths.recipe)
        return parse_toml(read_text(path, RecipeError), str(path), RecipeError)

    @cached_property
    def script(self) -> Script:
        return Script(self.name, plain(self._kept(self.paths.script)).read_text(encoding="utf-8"))

    @property
    def text(self) -> str:
        """Return the log so far; empty before the job has started."""
        path = self._result(self.log_file)
        try:
            return plain(path).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def tail(self, lines: int = LAST_LINES) -> str:
        """Return the last lines of the log; empty before the job has started."""
        text = progress.end_of(self.log_file, LONG_LINE_BYTES * lines)
        return "\n".join(text.splitlines()[-lines:])

    def last_lines(self, lines: int = LAST_LINES) -> str:
        """Return the last lines for a message. The job's own output is not translated."""
        if tail := self.tail(lines):
            head = _("The last lines of {log_file}:", log_file=self.log_file)
            return "\n  ".join([head, *tail.splitlines()])
        return _("It printed nothing to {log_file}.", log_file=self.log_file)

    @property
    def error(self) -> str:
        """Describe a run that failed: its cause and the end of its log; otherwise ""."""
        status = self.status
        if status.state in ENDED_WELL or not (status.ended or status.state == UNKNOWN):
            return ""
        if self.cancelled:
            return self._was_cancelled
        text = f"{self.title} {status.words}."
        if cause := self.failure:
            text += f"\n\n{cause}"
        return f"{text}\n\n{self.last_lines()}"

    @property
    def cancelled(self) -> bool:
        """Return True if the run was cancelled. It has no result; `tail` shows its output."""
        return self.state == "CANCELLED"

    @property
    def _was_cancelled(self) -> str:
        return _(
            "{run} was cancelled and has no result. Run the cell that submits it again to make "
            "a new run",
            run=self.title,
        )

    @property
    def has_no_result(self) -> bool:
        """Return True if the run was cancelled, or failed before its first iteration."""
        if self.status.state not in ENDED_BADLY:
            return False
        is_there = self.log_file.is_file() and not self.cancelled
        return not is_there or _is_empty(self._reader("training_log", self.log_file))

    @property
    def failure(self) -> Any:
        """Return the first cause of a failed run, or None."""
        path = self._result(self.log_file)
        return self._reader("failure", path) if path.is_file() else None

    @property
    def cause(self) -> Any:
        """Return the first cause. Raise the error of a run whose log names none, or that was ended
        from outside, since its log breaks off."""
        if self.failure is None or self.state in ENDED_FROM_OUTSIDE:
            raise RunFailedError(self.error or self.reason)
        return self.failure

    @property
    def log(self) -> Any:
        """Return the training log's tables: `log.world`, `log.iterations`, `log.evaluations` …"""
        status, log = self.status, self._reader("training_log", self._recorded(self.paths.log))
        if _is_empty(log) and (status.state in ENDED_BADLY or not status.ended):
            raise self._not_recorded(_("iteration"))
        return log

    nccl = _record("nccl", "log")
    memory = _record("memory")
    profile = _record("profile")
    diary = _record("diary")
    flight = _record("flight")  # the last collectives of each rank of a failed run
    links = _record("links")
    monitor = _record("monitor")

    def _kept(self, path: Path) -> Path:
        if self.deleted:
            raise UnknownRunError(
                _(
                    "{run} was deleted: {folder} does not exist any more. Run the cell that "
                    "submits it again to make a new run",
                    run=self.title,
                    folder=self.folder,
                )
            )
        return path

    def _result(self, path: Path) -> Path:
        if self.cancelled:
            raise NotRecordedError(self._was_cancelled)
        return path

    def _recorded(self, path: Path) -> Path:
        """Return the path of a record, or raise an error that explains which recipe writes it."""
        self._result(self._kept(path))
        if path.is_file() or (path.is_dir() and any(path.iterdir())):
            return path
        raise self._not_recorded(*RECORDED[path.stem])

    def _not_recorded(self, what: str, how: str = "") -> NotRecordedError:
        run, reason = self.title, self.reason
        text = _("{run} has no {what}: it is {reason}", run=run, what=what, reason=reason)
        if not self.ended:
            way = _("Wait for its end with run.wait()")
        elif how:
            way = _("To get one, {how}", how=how)
        else:
            way = _("Run the cell that submits it again to make a new run")
        return NotRecordedError(f"{text}. {way}")

    def _reader(self, name: str, path: Path) -> Any:
        from course_lib import read

        stamp = _stamp(path)
        if name not in self._read or self._read[name][0] != stamp:
            self._read[name] = (stamp, getattr(read, name)(path))
        return self._read[name][1]


def _is_empty(log: Any) -> bool:
    """Return True if the log has neither iterations nor epochs. Some trainers print only epochs."""
    return bool(log.iterations.empty and log.epochs.empty)


def _stamp(path: Path) -> object:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    stats = [(file.name, file.stat()) for file in files if file.exists()]
    return [(name, stat.st_mtime_ns, stat.st_size) for name, stat in stats]
