"""What a batch job finds, and what is left of it, on nodes and in flat mode alike."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import sys
import time


def test_a_job_finds_its_script_folder_arguments_and_streams(any_box):
    (any_box.work / "job.sh").write_text(
        '#!/bin/bash\npwd; printf "%s|" "$@"; cat; readlink /proc/$$/fd/0; basename "$0"\n'
        "echo error >&2; umask; ulimit -n; id -u\n"
    )
    (any_box.work / "in put").write_text("typed\n")
    done = any_box.run(
        "sbatch", "--parsable", "-o", "out-%j", "-i", "in put", "job.sh", "a b", "c'd"
    )
    job = done.stdout.strip()
    assert any_box.wait(job) == "COMPLETED"
    lines = any_box.output(job).splitlines()
    assert lines[0] == str(any_box.work)
    assert lines[1] == "a b|c'd|typed"
    assert lines[2:5] == [str(any_box.work / "in put"), "slurm_script", "error"]
    assert lines[7] == str(os.getuid())


def test_exit_code_and_signal_of_the_script_are_those_of_the_job(any_box):
    jobs = [any_box.submit(script) for script in ("exit 3", "kill -9 $$", "true")]
    for job in jobs:
        any_box.wait(job)
    found = any_box.run("sacct", "-nPX", "-j", ",".join(jobs), "-o", "State,ExitCode").stdout
    assert found.split() == ["FAILED|3:0", "FAILED|0:9", "COMPLETED|0:0"]


def test_steps_run_on_every_node_with_numbers_of_their_own(any_box):
    text = any_box.result(
        "srun -l bash -c 'echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURMD_NODENAME'\n"
        "srun -l -m cyclic bash -c 'echo $SLURM_PROCID $SLURMD_NODENAME $SLURM_GTIDS' | sort\n",
        "-N2",
        "--ntasks-per-node=2",
    )
    block, cyclic = sorted(text.splitlines()[:4]), text.splitlines()[4:]
    assert block == ["0: 0 0 0 node1", "1: 1 1 0 node1", "2: 2 0 1 node2", "3: 3 1 1 node2"]
    assert cyclic == ["0: 0 node1 0,2", "1: 1 node2 1,3", "2: 2 node1 0,2", "3: 3 node2 1,3"]


def test_srun_ends_with_the_worst_code_and_names_the_tasks(any_box):
    text = any_box.result(
        "srun bash -c 'exit $((SLURM_PROCID + 3))'; echo rc=$?\n"
        "srun -n1 bash -c 'kill -9 $$'; echo rc=$?\n"
        "srun -n1 no-such-command; echo rc=$?\n"
        "srun -n1 --chdir=/nowhere pwd; echo rc=$?\n"
        "srun -K1 bash -c 'if [ $SLURM_PROCID = 1 ]; then exit 7; fi; sleep 60'; echo rc=$?",
        "-n2",
    )
    assert re.findall(r"rc=(\d+)", text) == ["4", "137", "2", "0", "143"]
    assert "srun: error: node1: task 0: Exited with exit code 3\n" in text
    assert "srun: error: node1: task 0: Killed\n" in text
    assert "slurmstepd: error: execve(): no-such-command: No such file or directory" in text
    assert "couldn't chdir to `/nowhere': No such file or directory: going to /tmp" in text


def test_srun_passes_input_output_and_files_on(any_box):
    text = any_box.result(
        "echo typed | srun cat\n"
        "head -c 3000000 /dev/zero | srun -n1 wc -c\n"
        "srun -o 'task.%t.%j' bash -c 'echo $SLURM_PROCID'; cat task.*.$SLURM_JOB_ID\n"
        "srun -n1 -i none cat; echo end\n"
        "srun -n1 bash -c 'yes | head -c 3000000' | wc -c\n",
        "-n2",
    )
    assert text.split() == ["typed", "typed", "3000000", "0", "1", "end", "3000000"]


def test_a_step_waits_for_the_cpus_of_another(any_box):
    text = any_box.result(
        "srun -n2 bash -c 'sleep 1; echo first' & sleep 0.5; srun -n2 echo second; wait\n"
        "srun -n2 sleep 1 & sleep 0.3; srun --overlap -n1 echo together; wait",
        "-n2",
    )
    assert "step creation temporarily disabled, retrying (Requested nodes are busy)" in text
    assert "Step created for job" in text
    words = [word for word in text.split() if word in ("first", "second", "together")]
    assert words == ["first", "first", "second", "second", "together"]


def test_scancel_lets_the_script_clean_up_and_says_so_in_the_log(any_box):
    job = any_box.submit("trap 'echo cleaning; exit 5' TERM; touch started; sleep 60 & wait")
    any_box.until_exists("started")
    any_box.run("scancel", job)
    assert any_box.wait(job) == "CANCELLED"
    assert "cleaning" in any_box.output(job)
    line = rf"slurmstepd: error: \*\*\* JOB {job} ON node1 CANCELLED AT \d{{4}}-[\dT:-]+ \*\*\*"
    assert re.search(line, any_box.output(job))


def test_what_ignores_sigterm_is_killed_and_nothing_is_left(any_box):
    job = any_box.submit(
        "trap '' TERM; (setsid bash -c 'while :; do sleep 1; done' &) ; touch deaf\n"
        "srun bash -c \"trap '' TERM; while :; do sleep 1; done\"\nwhile :; do sleep 1; done"
    )
    any_box.until_exists("deaf")
    any_box.run("scancel", job)
    assert any_box.wait(job) == "CANCELLED"
    assert_nothing_is_left(any_box)


def assert_nothing_is_left(box, patience_s=10):
    """The supervisor tells the end of its job a moment before it ends itself."""
    deadline = time.monotonic() + patience_s
    while box.job_processes() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert box.job_processes() == {}


def test_processes_left_in_the_background_end_with_the_script(any_box):
    job = any_box.submit("setsid sleep 600 & srun --overlap sleep 600 & sleep 1; echo done")
    assert any_box.wait(job) == "COMPLETED"
    assert_nothing_is_left(any_box)


def _put_clock_forward(box, job: str, seconds: float) -> None:
    """As if the job had begun earlier; its supervisor reads its limit again."""
    with sqlite3.connect(box.home / "state.sqlite", timeout=30) as db:
        db.execute("UPDATE job SET start_s = start_s - ? WHERE id = ?", (seconds, int(job)))
    code = (
        "import sys; from course_lib.box.processes import control;"
        "control.send(int(sys.argv[1]), {'do': 'reload'})"
    )
    box.run(sys.executable, "-c", code, job)


def test_the_time_limit_ends_a_job_and_the_signal_before_it_comes(any_box):
    job = any_box.submit(
        "trap 'echo soon' USR1; trap 'echo over' TERM; touch begun; while :; do sleep 0.1; done",
        "--time=1",
        "--signal=B:USR1@50",
    )
    any_box.until_exists("begun")
    _put_clock_forward(any_box, job, 30)
    any_box.until_said(job, "soon")
    _put_clock_forward(any_box, job, 40)
    assert any_box.wait(job) == "TIMEOUT"
    assert "DUE TO TIME LIMIT ***" in any_box.output(job)
    assert any_box.output(job).index("soon") < any_box.output(job).index("over")


def test_an_output_folder_that_does_not_exist_fails_the_job_as_slurmd_does(any_box):
    done = any_box.run("sbatch", "--parsable", "-o", "nowhere/x", "--wrap", "touch ran")
    job = done.stdout.strip()
    assert any_box.wait(job) == "FAILED"
    assert any_box.run("sacct", "-nPX", "-j", job, "-o", "ExitCode").stdout.strip() == "0:53"
    assert not (any_box.work / "ran").exists()


def test_srun_outside_of_a_job_gets_its_own_nodes(any_box):
    done = any_box.run(
        "srun", "-N2", "-l", "bash", "-c", "echo $SLURMD_NODENAME; exit 4", check=False
    )
    assert sorted(done.stdout.splitlines()) == ["0: node1", "1: node2"]
    assert done.returncode == 4
    assert any_box.run("sacct", "-nPX", "-o", "State").stdout.split()[-1] in ("FAILED", "RUNNING")


def test_a_requeued_job_runs_again_and_appends_to_its_log_if_asked(any_box):
    job = any_box.submit(
        "echo run ${SLURM_RESTART_COUNT:-0}; touch run-$SLURM_RESTART_COUNT\n"
        '[ -n "$SLURM_RESTART_COUNT" ] || sleep 60',
        "--requeue",
        "--open-mode=append",
    )
    any_box.until_exists("run-")
    any_box.run("scontrol", "requeue", job)
    assert any_box.wait(job) == "COMPLETED"
    assert re.findall(r"run \d", any_box.output(job)) == ["run 0", "run 1"]


def test_an_srun_whose_words_go_slowly_still_says_how_its_tasks_ended(any_box):
    """The end of the cancelled script kills what it left; its srun comes first."""
    pipe = any_box.work / "errors"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(reading, b"." * 4096)
    job = any_box.submit(f"srun sleep 100 2> {pipe}")
    any_box.until("a step", lambda: f"{job}.0" in any_box.run("squeue", "-hs", "-o", "%i").stdout)
    any_box.run("scancel", job)
    time.sleep(0.7)  # by then the step is over, and srun waits for somebody who reads
    told = bytearray()

    def has_told() -> bool:
        with contextlib.suppress(BlockingIOError):
            told.extend(os.read(reading, 1 << 16))
        return b"srun: error: node1: task 0: Terminated\n" in told

    any_box.until("the task's end", has_told)
    os.close(reading)
    assert any_box.wait(job) == "CANCELLED"
