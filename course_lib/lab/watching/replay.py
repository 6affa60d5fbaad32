"""A recorded run is watched as if it were running: its log comes line by line, sped up."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from course_lib.lab.plain_files import plain
from course_lib.lab.queue.states import Status
from course_lib.lab.watching.progress import Follower, Progress

if TYPE_CHECKING:
    from course_lib.lab.runs.followed import FollowedJob

TIMES_AS_FAST = 8
LONGEST_S = 4.0
LOOK_S = 0.25
LARGEST_LOG_BYTES = 4 << 20
"""Of a longer log the rest is there at its end."""


class Shows(Protocol):
    def show(self, status: Status, progress: Progress) -> None: ...


@dataclass(frozen=True)
class _Log:
    log_file: Path


def replay(run: FollowedJob, view: Shows) -> None:
    ended = run.status
    lasted_s = ended.elapsed_s or 0.0
    looks = max(int(min(lasted_s / TIMES_AS_FAST, LONGEST_S) / LOOK_S), 1)
    try:
        with plain(run.log_file).open("rb") as file:
            lines = file.read(LARGEST_LOG_BYTES).splitlines(keepends=True)
    except OSError:
        return
    with tempfile.TemporaryDirectory(prefix="course-replay-") as folder:
        log = Path(folder, "out.log")
        follower = Follower(_Log(log))
        for look in range(looks):
            log.write_bytes(b"".join(lines[: len(lines) * look // looks]))
            elapsed_s = lasted_s * look / looks
            status = Status(state="RUNNING", elapsed_s=elapsed_s, nodes=ended.nodes)
            view.show(status, follower.look())
            time.sleep(LOOK_S)
