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
    assert "sbatch: error: Batch job submission failed: I/O error writing script" in done.stderr
    assert "sbatch: note: the disk that holds" in done.stderr
    assert "before COMPLETED" in done.stdout, done.stdout + done.stderr
    assert "cancel while full: 0" in done.stdout, done.stdout + done.stderr
    assert "filling CANCELLED" in done.stdout
    assert "after COMPLETED" in done.stdout


ASK = r"""
set -u
mount -t tmpfs -o size=6m tmpfs "$COURSE_BOX_HOME" && cp "$1" "$COURSE_BOX_HOME/box.toml"
sbatch --wait -o /dev/null -J first --wrap 'exit 3'
sbatch -H -o /dev/null -J second --wrap true
if [ "$2" = killed ]; then  # its last words are still in the journal
    python3 - <<'X'
import os, sqlite3
db = sqlite3.connect(os.environ["COURSE_BOX_HOME"] + "/state.sqlite", isolation_level=None)
db.execute("UPDATE job SET name = 'journal' WHERE id = 2")
os.kill(os.getpid(), 9)
X
    rm "$COURSE_BOX_HOME/state.sqlite-shm"
fi
if [ "$3" = full ]; then
    cat /dev/zero > "$COURSE_BOX_HOME/filler" 2>/dev/null
else
    mount --bind "$COURSE_BOX_HOME" "$COURSE_BOX_HOME" && mount -o remount,bind,ro "$COURSE_BOX_HOME"
    cd "$PWD"
fi
for command in 'squeue -h -t all -o %i,%j,%T' 'sacct -nPX -o jobid,jobname,exitcode' 'sinfo -h -o %D,%T' \
    'scontrol -o show job 2' 'scontrol show node node1' 'scontrol show config' 'squeue -s' 'sbatch --wrap true'; do
    $command > out; echo "$? $command" >&3; head -c 300 out >&3
done 3>&1 2>err
sort err | uniq -c | sort -n | head -c 2000
"""


@pytest.mark.parametrize("before", ["closed", "killed"])
@pytest.mark.parametrize("disk", ["full", "read-only"])
def test_questions_are_answered_while_nothing_can_be_written(make_box, namespaces, before, disk):
    box = make_box()
    settings = box.work / "settings.toml"
    settings.write_text((box.home / "box.toml").read_text())
    maps = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    done = box.run(
        "unshare", *maps, "--mount", "bash", "-c", ASK, "ask", str(settings), before, disk
    )
    name = "journal" if before == "killed" else "second"
    for line in (
        f"2,{name},PENDING", "1,first,FAILED", "1|first|3:0", "2,idle", f"JobName={name}",
        "0 scontrol show node node1", "NodeName=node1", "0 scontrol show config", "0 squeue -s",
        "1 sbatch --wrap true",
    ):  # fmt: skip
        assert line in done.stdout, done.stdout + done.stderr
    why = "is full: free some space" if disk == "full" else "cannot be written: allow it"
    assert f"{box.home} {why}" in done.stdout


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
    assert "squeue: note: the state file was lost or set aside, and a new one begun at" in told
    assert "those that ran were ended" in told
    box.until("the end of its processes", lambda: not box.job_processes())
    later = box.submit("echo later")
    assert int(later) > int(job)
    assert box.wait(later) == "COMPLETED"
