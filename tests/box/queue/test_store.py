"""The next command works, whatever happened to the state file."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from course_lib.box.queue import state, store


def put_aside(home):
    return list(home.glob("state.sqlite.*"))


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 100, b"SQLite format 3\0 cut"])
def test_a_broken_state_file_is_set_aside_and_work_goes_on(queue, home, capsys, content):
    first = queue.submit()
    (home / "jobs" / "41").mkdir(parents=True)
    for journal in home.glob("state.sqlite-*"):
        journal.unlink()
    (home / "state.sqlite").write_bytes(content)
    second = queue.submit()
    assert second == 42, "a number that a lost job has used is not given out again"
    assert state.read_job(first) is None
    if content:
        assert len(put_aside(home)) == 1
        assert "the box renamed it to" in capsys.readouterr().err


def test_a_state_file_of_another_version_is_set_aside(queue, home, capsys):
    queue.submit()
    with sqlite3.connect(home / "state.sqlite") as db:
        db.execute("PRAGMA user_version = 7")
    db.close()
    queue.submit()
    assert len(put_aside(home)) == 1
    assert "another version" in capsys.readouterr().err


def test_a_locked_state_file_is_an_error_that_says_so(queue, home, monkeypatch):
    queue.submit()
    monkeypatch.setattr(store, "BUSY_S", 0.2)
    with sqlite3.connect(home / "state.sqlite", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(store.StateError, match=r"state\.sqlite.*locked"):
            queue.submit()
        assert state.read_job(1) is not None, "reading does not wait for a writer"
        other.execute("ROLLBACK")
    other.close()


def test_many_first_commands_make_one_state_file(home):
    code = "from course_lib.box.queue import state; print(state.submit({'name': 'x'}))"

    def start(_):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(start, range(8))) == list(range(1, 9))
    assert put_aside(home) == []


def test_a_failed_transaction_leaves_nothing_behind(queue):
    job = queue.submit()
    transaction = store.transaction()
    store.change(transaction.__enter__(), job, state="RUNNING")
    transaction.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert queue.job(job).state == "PENDING"
