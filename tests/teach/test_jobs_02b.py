"""Lesson 02b: the last three edits concern the job and are judged by the arguments of torchrun."""

from __future__ import annotations

from pathlib import Path

import pytest

from course_lib.lab.job.recipes import shell
from course_lib.publish.building.gaps import answered
from course_lib.teach.checks import lesson02b
from course_lib.teach.trials.job import false_cluster

from .finished_runs import hint_of
from .own_trials import cell_of, swapped

LESSON = "02b_fifteen_edits"


def commands_of(text):
    known = {}
    exec(answered(text, ""), known)
    return known["commands"]


COMMANDS = commands_of(cell_of(LESSON, "job-commands"))
LOG = "meeting at 10.77.0.1:10042\nepoch 1: train loss 5.1, validation loss 4.2\n"
WRONG_JOBS = {
    "13 one node": ({"nodes": 1}, [], LOG, "the job asks for 1 nodes"),
    "13 no device": ({"gpus_per_node": 0}, [], LOG, "with 0 devices each"),
    "13 one process": ({}, [("node=2", "node=1")], LOG, "Each node has 2 devices"),
    "14 localhost": (
        {}, [("MASTER_ADDR=$(", "MASTER_ADDR=localhost #$(")], LOG,
        "address on the fast network is 10.2.0.1",
    ),
    "14 a fixed port": (
        {}, [("$((10000 + SLURM_JOB_ID % 20000))", "29500")], LOG,
        "jobs 8 and 9 would both take port 29500",
    ),
    "14 no suffix": ({}, [("$SUFFIX", "")], LOG, "address on the fast network is 10.2.0.1"),
    "15 no srun": ({}, [("srun bash", "bash")], LOG, "launchers start on node1, by no srun"),
    "15 no backend": ({}, [("--rdzv-backend=c10d", "")], LOG, "--rdzv-backend is not given"),
    "15 no id": ({}, [('--rdzv-id="$SLURM_JOB_ID"', "")], LOG, "--rdzv-id is not given"),
    "15 no host": (
        {}, [("--rdzv-conf=is_host=$((SLURM_NODEID == 0))", "")], LOG, "does not say is_host",
    ),
    "15 host nowhere": ({}, [("$((SLURM_NODEID == 0))", "0")], LOG, "is_host is 0 (node1), 0"),
    "two models": ({}, [], LOG + LOG, "reports epoch 1 2 times"),
}  # fmt: skip
FIRST, PORT = "getent hosts", "$((10000 + SLURM_JOB_ID % 20000))"
# Formulas with which some ids have the same or no port, and what the hint says of these ids.
WRONG_PORTS = {
    "10000 + SLURM_JOB_ID % 3000": "jobs 8 and 3008 would both take port 10008",
    "10000 + SLURM_JOB_ID % 9000": "jobs 8 and 9008 would both take port 10008",
    "10000 + SLURM_JOB_ID % 9999": "jobs 8 and 10007 would both take port 10008",
    "10000 + SLURM_JOB_ID % 10000": "jobs 8 and 10008 would both take port 10008",
    "20000 + (SLURM_JOB_ID & 8191)": "jobs 8 and 8200 would both take port 20008",
    "10000 + SLURM_JOB_ID / 8 % 20000": "jobs 8 and 9 would both take port 10001",
    "10000 + (2 * SLURM_JOB_ID) % 20000": "jobs 8 and 10008 would both take port 10016",
    "2000 + SLURM_JOB_ID % 65000": "the port of job 63999 would be 65999",
    "10000 + SLURM_JOB_ID % 60000": "the port of job 55999 would be 65999",
    "10000 + $(printf %s $SLURM_JOB_ID | tail -c 4)": "the port of job 10008 would be ''",
}
RIGHT_PORTS = (
    "$((10000 + SLURM_JOB_ID % 10001))",
    "$((2000 + SLURM_JOB_ID % 63000))",
    "$((10000 + SLURM_JOB_ID * 7919 % 20000))",
    "$(expr 10000 + $SLURM_JOB_ID % 20000)",
    "$((10000 + 10#${SLURM_JOB_ID} % 20000))",
    "; number=$SLURM_JOBID; let MASTER_PORT=10000+number%20000",
    "; port() { ((MASTER_PORT = 10000 + $1 % 20000)); }; port $SLURM_JOB_ID",
    "; printf -v MASTER_PORT %s $((10000 + SLURM_JOB_ID % 30000))",
)
HOST, ID = "is_host=$((SLURM_NODEID == 0))", '--rdzv-id="$SLURM_JOB_ID"'
WHOLE = (
    ("srun bash -c 'torchrun", 'srun bash -c "torchrun'),
    ('"$START" "$PROGRAM"\'', '$START $PROGRAM"'),
)
MORE_WRONG_JOBS = {
    "13 auto": ([("node=2", "node=auto")], "--nproc-per-node is auto on node1. Each node has 2"),
    "14 suffix before": ([('"$first$SUFFIX"', '"$SUFFIX$first"')], "no host is called 'inode1'"),
    "14 the job's number": ([(PORT, "$SLURM_JOB_ID")], "the port of job 8 would be 8"),
    "14 by chance": ([(PORT, "$((10000 + RANDOM))")], "depends on the job id alone"),
    "14 not exported": ([("export MASTER_ADDR MASTER_PORT", "export")], "torchrun gets no address"),
    "15 host everywhere": ([(HOST, "is_host=1")], "is_host is 1 (node1), 1 (node2)"),
    "15 by the first shell": ([*WHOLE], "is the text in single quotes?"),
    "15 two on each": (
        [("srun", "srun --ntasks-per-node 2")],
        "launchers start on node1 and node1 and node2",
    ),
    "15 one id": ([(ID, "--rdzv-id=course")], "--rdzv-id is course. It has to be the same"),
    "15 another program": ([('"$START" "$PROGRAM"', '"$PROGRAM"')], "not \"$START\""),
    "15 a broken line": ([("--nproc-per-node=2 \\\n", "--nproc-per-node=2 \\ \n")], "backslash"),
    "15 two ports": (
        [("$MASTER_PORT", "$((MASTER_PORT + SLURM_NODEID))"), ("meeting at $MASTER_ADDR:$((MASTER_"
          "PORT + SLURM_NODEID))", "meeting at $MASTER_ADDR:$MASTER_PORT")],
        "node2 goes to 10.2.0.1:10009",
    ),
}  # fmt: skip
OTHER_JOBS = {
    "numbers of Slurm": [
        ("--nnodes=2", "--nnodes=$SLURM_JOB_NUM_NODES"), ("node=2", "node=$SLURM_GPUS_ON_NODE"),
    ],
    "gpu, and 2:2": [("--nnodes=2", "--nnodes=2:2"), ("node=2", "node=gpu")],
    "the job's other name": [("SLURM_JOB_ID", "SLURM_JOBID")],
    "a time limit": [("srun bash", "timeout 200 srun --label bash")],
    "ahosts": [(FIRST, "getent ahostsv4")],
    "hostname on the first node": [('"$first$SUFFIX"', '"$(srun -N1 -n1 hostname)$SUFFIX"')],
    "a port by expr": [(PORT, "$(expr 10000 + $SLURM_JOB_ID % 20000)")],
    "host by a test": [(HOST, '"is_host=$(test $SLURM_PROCID = 0 && echo true || echo false)"')],
    "host by !": [(HOST, "join_timeout=300,is_host=$((!SLURM_NODEID))")],
    "python -m": [("'torchrun", "'python -m torch.distributed.run")],
}  # fmt: skip


def job(finished, *pairs, log=LOG, **asked):
    environment = {"SUFFIX": "i", "START": "start.py", "PROGRAM": "own.py"}
    given = {"nodes": 2, "gpus_per_node": 2, "environment": environment} | asked
    return finished(shell.recipe("own", swapped(COMMANDS, *pairs), **given), log)


def test_a_job_with_the_last_three_passes(finished, capsys):
    lesson02b.ex02b_script(job(finished))
    underscores = [("--rdzv-id=", "--rdzv_id "), ("--rdzv-conf=", "--rdzv_conf=")]
    lesson02b.ex02b_script(job(finished, *underscores, ("--nnodes=2", '--nnodes="$SLURM_NNODES"')))
    assert "✓ one model was trained, and each epoch is reported once" in capsys.readouterr().out


@pytest.mark.many(3)
@pytest.mark.parametrize("name", WRONG_JOBS)
def test_a_wrong_line_of_the_job_is_named(finished, name):
    asked, pairs, log, words = WRONG_JOBS[name]
    assert words in hint_of(lesson02b.ex02b_script, job(finished, *pairs, log=log, **asked))


@pytest.mark.many(3)
@pytest.mark.parametrize("name", MORE_WRONG_JOBS)
def test_what_torchrun_is_called_with_on_each_node_is_judged(finished, name):
    pairs, words = MORE_WRONG_JOBS[name]
    assert words in hint_of(lesson02b.ex02b_script, job(finished, *pairs))


@pytest.mark.many(3)
@pytest.mark.parametrize("formula", WRONG_PORTS)
def test_a_port_that_two_jobs_may_take_at_the_same_time_is_refused(finished, formula):
    hint = hint_of(lesson02b.ex02b_script, job(finished, (PORT, f"$(({formula}))")))
    assert WRONG_PORTS[formula] in hint


def test_a_hint_says_how_far_apart_ids_need_different_ports_and_why(finished):
    hint = hint_of(lesson02b.ex02b_script, job(finished, (PORT, "$((9000 + SLURM_JOB_ID % 7000))")))
    assert "up to 10,000 apart" in hint
    assert "thousands of jobs a day" in hint


@pytest.mark.many(3)
@pytest.mark.parametrize("formula", RIGHT_PORTS)
def test_ports_by_other_formulas_pass(finished, formula):
    lesson02b.ex02b_script(job(finished, (PORT, formula)))


@pytest.mark.many(3)
@pytest.mark.parametrize("name", OTHER_JOBS)
def test_jobs_in_other_forms_pass(finished, name):
    lesson02b.ex02b_script(job(finished, *OTHER_JOBS[name]))


def test_a_second_run_touches_nothing_and_leaves_nothing(finished, tmp_path, monkeypatch):
    monkeypatch.setattr(false_cluster, "LONGEST_S", 1)
    kept, left = tmp_path / "kept", tmp_path / "left"
    kept.touch()
    commands = f"rm {kept}\n(while :; do sleep 1; done; touch {left}) &\ntouch here ~/here\nwait\n"
    (rehearsed,) = false_cluster.rehearse(commands, {})
    assert (rehearsed.in_time, kept.exists(), left.exists()) == (False, True, False)
    assert not Path("here").exists()


def test_without_bash_the_check_says_so(finished, monkeypatch):
    run = job(finished)
    monkeypatch.setattr(false_cluster.shutil, "which", lambda _: None)
    assert "This check needs bash" in hint_of(lesson02b.ex02b_script, run)
