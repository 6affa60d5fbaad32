"""A state folder without any supervisor: what is tested here is only the record."""

from __future__ import annotations

import pytest

from course_lib.box.queue import access, schedule, state
from course_lib.box.settings import Settings


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_BOX_HOME", str(tmp_path))
    monkeypatch.delenv("COURSE_BOX_JOB", raising=False)
    return tmp_path


class Queue:
    """Submits into the state file and hands out nodes, as sbatch does, but starts nothing."""

    def __init__(self) -> None:
        self.box = Settings(cpus_per_node=8)

    def submit(self, **fields) -> int:
        return state.submit({"nodes_max": 0, "time_limit_min": 60, "name": "job", **fields})

    def whole(self, **fields) -> int:
        """A job that needs both nodes for itself."""
        return self.submit(exclusive=1, nodes_min=2, nodes_max=2, nodes_given=1, **fields)

    def run_pass(self) -> list[int]:
        with access.transaction() as db:
            return schedule.allot_nodes(db, self.box)

    def reason(self, job_id: int) -> str:
        return self.job(job_id).reason

    def job(self, job_id: int):
        found = state.read_job(job_id)
        assert found is not None
        return found

    def finish(self, job_id: int, ended: str = "COMPLETED", code: int = 0) -> None:
        assert state.claim(job_id, 1, 1) is not None
        state.finish(job_id, ended, code)


@pytest.fixture
def queue(home):
    return Queue()
