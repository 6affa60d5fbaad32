"""Any process of the box may be killed at any moment; the queue stays correct."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

KINDS = ("net", "pid", "mnt", "uts")
SCRIPT = """
touch started
(setsid bash -c 'exec sleep 600' &)
srun --overlap bash -c 'sleep 600' &
python3 -c 'import time; time.sleep(600)' &
wait
echo script goes on
"""


def _begun(box, *options: str) -> str:
    job = box.submit(SCRIPT, "-N2", "--ntasks-per-node=1", *options)
    box.until_exists("started")
    box.until(
        "all its processes", lambda: "sleep" in _names(box) and len(_named(box, "sleep")) >= 3
    )
    return job


def _names(box) -> set[str]:
    return set(box.job_processes().values())


def _named(box, name: str) -> list[int]:
    return sorted(pid for pid, found in box.job_processes().items() if found == name)


def _noted(box, job: str) -> list[int]:
    """Return the guard and the first process, as the supervisor recorded them."""
    lines = (box.home / "jobs" / job / "processes").read_text().splitlines()
    return [int(line.split()[0]) for line in lines]


def _supervisor(box, job: str) -> int:
    guard = _noted(box, job)[0]
    return int(re.search(r"PPid:\s+(\d+)", Path(f"/proc/{guard}/status").read_text())[1])


def _spaces(pid: int) -> set[str]:
    return {str(Path(f"/proc/{pid}/ns/{kind}").readlink()) for kind in KINDS}


def _all_spaces() -> set[str]:
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found |= _spaces(int(entry.name))
            except OSError:
                continue
    return found


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _truth(box, job: str, state: str, supervisor: int) -> None:
    """Check that the next answer is true, that the job has left no processes, and that later jobs
    run."""
    box.until("the end of the supervisor", lambda: not _lives(supervisor))
    assert box.state(job) == state
    box.until("nothing of the job is left", lambda: not box.job_processes())
    assert box.run("squeue", "-h", "-t", "R,CG").stdout.strip() == ""
    assert box.result("srun -N2 -n2 hostname | wc -l", "-N2").split() == ["2"]


@pytest.mark.parametrize("victim", ["supervisor", "guard", "first process"])
def test_a_killed_part_of_the_machinery_is_a_failed_node(any_box, victim):
    job = _begun(any_box)
    guard, first = _noted(any_box, job)[:2]
    before = _spaces(first) - _spaces(os.getpid())
    # held open, their numbers are given to no other namespace of this machine meanwhile
    held = [os.open(f"/proc/{first}/ns/{kind}", os.O_RDONLY) for kind in KINDS]
    supervisor = _supervisor(any_box, job)
    target = {"supervisor": supervisor, "guard": guard, "first process": first}
    os.kill(target[victim], signal.SIGKILL)
    _truth(any_box, job, "NODE_FAIL", supervisor)
    found = before & _all_spaces()
    for descriptor in held:
        os.close(descriptor)
    assert not found


def test_a_killed_srun_takes_its_step_with_it_and_the_script_goes_on(any_box):
    job = _begun(any_box)
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
                mine = str(any_box.home).encode() in (entry / "environ").read_bytes()
            except OSError:
                continue
            if mine and b"command_entry.py\0srun\0" in line:
                found.append(int(entry.name))
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    ask = ("sacct", "-nP", "-j", f"{job}.0", "-o", "State")
    any_box.until("end of the step", lambda: "CANCELLED" in any_box.run(*ask).stdout)
    assert any_box.state(job) == "RUNNING"
    any_box.run("scancel", job)
    assert any_box.wait(job) == "CANCELLED"


def test_a_killed_step_daemon_ends_its_step_and_not_the_job(any_box):
    job = any_box.submit("srun sleep 600; echo code $?", "-n1")
    any_box.until("the task", lambda: _named(any_box, "sleep"))
    task = _named(any_box, "sleep")[0]
    daemon = int(re.search(r"PPid:\s+(\d+)", Path(f"/proc/{task}/status").read_text())[1])
    os.kill(daemon, signal.SIGKILL)
    assert any_box.wait(job) == "COMPLETED"
    assert "code 137" in any_box.output(job)
    assert any_box.job_processes() == {}


def test_a_killed_srun_outside_of_a_job_leaves_no_job(any_box):
    import subprocess

    srun = subprocess.Popen(
        ["srun", "sleep", "600"], cwd=any_box.work, env=any_box.environment, text=True
    )
    any_box.until("its task", lambda: _named(any_box, "sleep"))
    srun.kill()
    srun.wait()
    any_box.until("an empty queue", lambda: not any_box.run("squeue", "-h").stdout.strip())
    assert any_box.job_processes() == {}
