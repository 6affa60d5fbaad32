# ruff: noqa: E501  lines of shell
"""A full disk, and a state file that is locked, gone or cut off."""

from __future__ import annotations

import os
import sqlite3

import pytest

FULL = r"""
set -u
mount -t tmpfs -o size=6m tmpfs "$COURSE_BOX_HOME" && cp "$1" "$COURSE_BOX_HOME/box.toml"
wait_end() { for i in $(seq 600); do s=$(sacct -nPX -j "$1" -o State); case $s in
    COMPLETED|FAILED|NODE_FAIL|CANCELLED) echo "$2 $s"; return;; esac; sleep 0.1; done; echo "$2 $s"; }
before=$(sbatch --parsable -o /dev/null --wrap 'touch begun; while [ -e begun ]; do sleep 0.1; done')
filling=$(sbatch --parsable -o /dev/null --wrap 'touch deaf; trap "rm deaf; exit" TERM; while :; do sleep 0.1; done')
for i in $(seq 600); do [ -e begun ] && [ -e deaf ] && break; sleep 0.1; done
cat /dev/zero > "$COURSE_BOX_HOME/filler" 2>/dev/null
sbatch -o /dev/null --wrap true; echo "while full: $?"
scancel "$filling"; echo "cancel while full: $?"
for i in $(seq 600); do [ -e deaf ] || break; sleep 0.1; done
rm begun
sleep 1
rm "$COURSE_BOX_HOME/filler"
wait_end "$filling" filling
wait_end "$before" before
after=$(sbatch --parsable -o /dev/null --wrap true)
wait_end "$after" after
"""


def test_on_a_full_disk_sbatch_refuses_and_no_end_is_lost(make_box, namespaces):
    box = make_box()
    settings = box.work / "settings.toml"
    settings.write_text((box.home / "box.toml").read_text())
    maps = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    done = box.run("unshare", *maps, "--mount", "bash", "-c", FULL, "full", str(settings))
    assert "while full: 1" in done.stdout
    assert "sbatch: note: the disk that holds" in done.stderr
    assert "before COMPLETED" in done.stdout, done.stdout + done.stderr
    assert "cancel while full: 0" in done.stdout, done.stdout + done.stderr
    assert "filling CANCELLED" in done.stdout
    assert "after COMPLETED" in done.stdout


def test_a_locked_state_file_delays_and_loses_nothing(make_box):
    box = make_box()
    job = box.submit("touch begun; sleep 1; echo end")
    box.until_exists("begun")
    with sqlite3.connect(box.home / "state.sqlite", isolation_level=None) as db:
        db.execute("BEGIN IMMEDIATE")
        box.until("the end of the script", lambda: "end" in box.output(job))
        db.execute("COMMIT")
    assert box.wait(job) == "COMPLETED"


@pytest.mark.parametrize("harm", ["removed", "cut off", "overwritten"])
def test_a_lost_state_file_ends_the_jobs_that_only_it_knew(make_box, harm):
    box = make_box()
    job = box.submit("touch begun; sleep 600")
    box.until_exists("begun")
    path = box.home / "state.sqlite"
    for extra in ("-wal", "-shm"):
        path.with_name(path.name + extra).unlink(missing_ok=True)
    if harm == "removed":
        path.unlink()
    elif harm == "cut off":
        os.truncate(path, 1000)
    else:
        path.write_bytes(b"no database at all" * 500)
    told = box.run("squeue").stderr
    assert harm == "removed" or "began a new one. The box ends all running jobs." in told
    box.until("the end of its processes", lambda: not box.job_processes())
    later = box.submit("echo later")
    assert int(later) > int(job)
    assert box.wait(later) == "COMPLETED"
