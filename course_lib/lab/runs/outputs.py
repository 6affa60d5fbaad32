"""What a run left behind: its recipe, script and log, and what the readers make of its files."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from course_lib.lab.errors import DeletedRunError, NotRecordedError, RecipeError
from course_lib.lab.job import value_types
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.script import Script
from course_lib.lab.plain_files import plain
from course_lib.lab.queue import states
from course_lib.lab.queue.jobs import Jobs
from course_lib.lab.queue.records import Record
from course_lib.lab.runs.followed import FollowedJob
from course_lib.lab.watching import progress

LAST_LINES, LONG_LINE_BYTES = 15, 400
ASK = (
    "that takes {0}=True in its recipe, as in run.recipe.but({0}=True), and a run that gets so far"
)
FLIGHT = "TORCH_FR_BUFFER_SIZE"
RECORDED = {
    "memory": ("memory trace", ASK.format("memory")),
    "profile": ("profile", ASK.format("profile")),
    "diary": ("diary", ASK.format("diary")),
    "flight": (
        "flight record",
        'that takes environment={"TORCH_FR_BUFFER_SIZE": "200"} in its '
        "recipe, and a run that fails: each rank leaves it when it gives up",
    ),
    "monitor": ("load", ASK.format("monitor")),
    "links": ("times of links", "links.recipe(…) makes a run that measures them"),
}
"""By the name in the run folder: what a run may record, and how it is asked to."""


class RunOutputs(FollowedJob):
    """A reader's answer is kept until the file or folder that it read changes."""

    def __init__(self, jobs: Jobs, record: Record):
        super().__init__(jobs, record)
        self._read: dict[str, tuple[object, Any]] = {}

    @property
    def deleted(self) -> bool:
        return not self.folder.is_dir()

    @cached_property
    def recipe(self) -> Recipe:
        return Recipe.from_dict(self._asked.get("recipe", self._asked))

    @cached_property
    def site(self) -> dict[str, Any]:
        """The site as it was when this was submitted."""
        return dict(self._asked.get("site", {}))

    @cached_property
    def _asked(self) -> dict[str, Any]:
        path = self._kept(self.paths.recipe)
        return value_types.parse(value_types.read_text(path, RecipeError), str(path), RecipeError)

    @cached_property
    def script(self) -> Script:
        return Script(self.name, plain(self._kept(self.paths.script)).read_text(encoding="utf-8"))

    @property
    def text(self) -> str:
        """The log as it stands; empty before the job has started."""
        try:
            return plain(self.log_file).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def tail(self, lines: int = LAST_LINES) -> str:
        """The last lines of the log; empty before the job has started."""
        text = progress.end_of(self.log_file, LONG_LINE_BYTES * lines)
        return "\n".join(text.splitlines()[-lines:])

    @property
    def error(self) -> str:
        """Empty unless the run ended badly: what happened, its cause, the end of its log."""
        status = self.status
        if status.state in states.ENDED_WELL or not (
            status.ended or status.state == states.UNKNOWN
        ):
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
        return self._reader("failure", self.log_file) if self.log_file.is_file() else None

    @property
    def log(self) -> Any:
        """The training log as tables: `log.world`, `log.iterations`, `log.evaluations` …"""
        return self._reader("training_log", self._printed())

    @property
    def nccl(self) -> Any:
        return self._reader("nccl", self._printed())

    @property
    def memory(self) -> Any:
        return self._reader("memory", self._recorded(self.paths.memory))

    @property
    def profile(self) -> Any:
        return self._reader("profile", self._recorded(self.paths.profile))

    @property
    def diary(self) -> Any:
        return self._reader("diary", self._recorded(self.paths.diary))

    @property
    def flight(self) -> Any:
        """The last collectives of each rank of a run that failed."""
        return self._reader("flight", self._recorded(self.paths.flight))

    @property
    def links(self) -> Any:
        return self._reader("links", self._recorded(self.paths.links))

    @property
    def monitor(self) -> Any:
        return self._reader("monitor", self._recorded(self.paths.monitor))

    def _kept(self, path: Path) -> Path:
        if self.deleted:
            raise DeletedRunError(
                f"{self.name} (job {self.job_id}) was deleted, {path.name} with it: {self.folder} "
                "is gone. Run the cell that submits it once more; it makes a new run"
            )
        return path

    def _printed(self) -> Path:
        if not self._kept(self.paths.log).exists():
            raise NotRecordedError(
                f"{self.name} (job {self.job_id}) has no log: it is {self.reason}. run.wait() "
                "waits for its end"
            )
        return self.paths.log

    def _recorded(self, path: Path) -> Path:
        """What only some recipes ask for; said at once, not by what would have read it."""
        self._kept(path)
        if path.is_file() or (path.is_dir() and any(path.iterdir())):
            return path
        what, how = RECORDED[path.stem]
        if not self.ended:
            raise NotRecordedError(
                f"{self.name} (job {self.job_id}) has no {what} yet: it is {self.reason}. "
                "run.wait() waits for its end"
            )
        if not self.ok and self._was_asked_for(path.stem):
            raise NotRecordedError(
                f"{self.name} (job {self.job_id}) has no {what}, though its recipe asks for one: "
                f"{'no rank of it gave up' if path.stem == 'flight' else 'it ended before'}"
            )
        raise NotRecordedError(f"{self.name} (job {self.job_id}) recorded no {what}: {how}")

    def _was_asked_for(self, part: str) -> bool:
        recipe = self.recipe
        return f"--{part}" in recipe.flags or (part == "flight" and FLIGHT in recipe.environment)

    def _reader(self, name: str, path: Path) -> Any:
        from course_lib import read

        stamp = _stamp(path)
        if name not in self._read or self._read[name][0] != stamp:
            self._read[name] = (stamp, getattr(read, name)(path))
        return self._read[name][1]


def _stamp(path: Path) -> object:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    stats = [(file.name, file.stat()) for file in files if file.exists()]
    return [(name, stat.st_mtime_ns, stat.st_size) for name, stat in stats]
