"""The rank that failed: a dead process comes before its victims; no rank or node is guessed."""

from __future__ import annotations

import pytest

from course_lib import read

from .runs import steps, traceback

CLOSED = "RuntimeError: [pair.cc:534] Connection closed by peer [10.0.0.5]:3012"
REMOTE = "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
CHILD = traceback("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ")


def victims(error: str) -> str:
    return steps(1, 2) + "".join(traceback(error, f"[rank{rank}]: ") for rank in (0, 1, 2))


def row(rank: int, code: int, host: str) -> str:
    return (
        f"  time      : 2026-03-04_10:12:1{rank}\n  host      : {host}\n"
        f"  rank      : {rank} (local_rank: {rank % 4})\n  exitcode  : {code} (pid: 4{rank})\n"
    )


def table(*rows: tuple[int, int], host: str) -> str:
    root, *others = [row(*one, host) for one in rows]
    listed = "".join(f"[{n}]:\n{text}" for n, text in enumerate(others, 1))
    head = f"{CHILD}=====\ntrain.py FAILED\n-----\nFailures:\n{listed}-----\n"
    return head + f"Root Cause (first observed failure):\n[0]:\n{root}=====\n"


@pytest.mark.parametrize("error", [CLOSED, REMOTE])
@pytest.mark.parametrize(
    ("end", "cause"),
    [
        ("Killed", "killed"),
        ("Segmentation fault (core dumped)", "crashed"),
        ("Bus error", "crashed"),
    ],
)
def test_srun_names_the_dead_after_the_victims_spoke(write, error, end, cause):
    died = f"srun: error: n2: task 3: {end}\n"
    others = "srun: error: n1: tasks 0-2: Exited with exit code 1\n"
    for ends in (died, died + others, others + died):
        found = read.failure(write("a.log", victims(error) + ends))
        assert (found.cause, found.rank, found.node) == (cause, 3, "n2")


def test_victims_that_slurm_clears_away_are_no_cause(write):
    cleared = "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
    text = victims(CLOSED) + "srun: error: n1: task 0: Exited with exit code 1\n" + cleared
    found = read.failure(write("a.log", text + "srun: error: n2: task 3: Killed\n"))
    assert (found.cause, found.rank) == ("lost_peer", 0)


def test_an_exit_before_any_victim_spoke(write):
    exited = "srun: error: n3: task 5: Exited with exit code 7\n"
    found = read.failure(write("a.log", exited + victims(REMOTE)))
    assert (found.cause, found.rank, found.node) == ("process_failed", 5, "n3")


@pytest.mark.parametrize(("code", "cause"), [(-9, "killed"), (-11, "crashed")])
@pytest.mark.parametrize("rows", [[(3, 0), (0, 1)], [(0, 1), (3, 0)], [(3, 0)]])
def test_torchrun_names_the_dead_after_the_victims_spoke(write, code, cause, rows):
    text = "W0304 10:22:03.0 77 api.py:897] Sending process 80 closing signal SIGTERM\n"
    text += f"E0304 10:22:05.0 77 api.py:869] failed (exitcode: {code}) local_rank: 3 (pid: 85)\n"
    told = table(*[(rank, its or code) for rank, its in rows], host="gpu12")
    found = read.failure(write("a.log", victims(CLOSED) + text + told))
    assert (found.cause, found.rank, found.node) == (cause, 3, "gpu12")


def test_the_node_of_another_task_is_not_that_of_the_rank(write):
    text = traceback(OOM, "[rank3]: ")
    other = "srun: error: n2: task 8: Exited with exit code 1\n"
    assert read.failure(write("a.log", text + other)).node is None
    own = "srun: error: n1: task 3: Exited with exit code 1\n"
    assert read.failure(write("a.log", text + other + own)).node == "n1"


@pytest.mark.parametrize("rank", [0, 3, 6])
def test_of_two_tables_that_of_the_rank_counts(write, rank):
    tables = table((6, -6), host="gpu13") + table((3, 1), host="gpu12")
    found = read.failure(write("a.log", traceback(OOM, f"[rank{rank}]: ") + tables))
    assert (found.rank, found.node) == (rank, "gpu13" if rank == 6 else "gpu12")


def test_no_table_has_the_rank(write):
    found = read.failure(write("a.log", traceback(OOM, "[rank9]: ") + table((3, 1), host="n1")))
    assert found.node is None


def test_a_spawned_process_is_named_with_the_error_inside(write):
    text = traceback("torch.multiprocessing.spawn.ProcessRaisedException: ")
    text += "\n-- Process 2 terminated with the following error:\n"
    for error, cause in ((OOM, "cuda_oom"), ("ValueError: bad shape", "python_error")):
        found = read.failure(write("a.log", text + traceback(error)))
        assert (found.cause, found.rank) == (cause, 2)


MPIRUN = "mpirun noticed that process rank 3 with PID 23 on node gpu07 exited on signal {}.\n"
MPIEXEC = "=   BAD TERMINATION\n=   RANK 3 PID 12 RUNNING AT gpu07\n=   KILLED BY SIGNAL: {}\n"
LAUNCHERS = [
    (MPIRUN.format("9 (Killed)"), "killed"),
    ("[gpu07:23] Signal: Segmentation fault (11)\n" + MPIRUN.format("11 (x)"), "crashed"),
    (MPIRUN.format("6 (Aborted)"), "aborted"),
    (MPIEXEC.format("9 (Killed)"), "killed"),
    (MPIEXEC.format("11 (Segmentation fault)"), "crashed"),
    (MPIEXEC.replace("KILLED BY SIGNAL", "EXIT CODE"), "process_failed"),
    ("srun: error: gpu07: task 3: Exited with exit code 137\n", "killed"),
    ("srun: error: gpu07: task 3: Aborted (core dumped)\n", "aborted"),
    ("terminate called after x\nsrun: error: gpu07: task 3: Aborted\n", "aborted"),
]


@pytest.mark.parametrize(("text", "cause"), LAUNCHERS)
def test_every_launcher_names_rank_and_node(write, text, cause):
    found = read.failure(write("a.log", steps(1, 2) + text))
    assert (found.cause, found.rank, found.node) == (cause, 3, "gpu07")


@pytest.mark.parametrize(
    ("text", "cause", "rank"),
    [
        ("['python', 't.py'] exits with return code = -9\n", "killed", None),
        ("['python', 't.py'] exits with return code = -11\n", "crashed", None),
        ("  Reason: OOMKilled\n", "host_oom_kill", None),
        ("x.ProcessExitedException: process 3 terminated with signal SIGSEGV\n", "crashed", 3),
        ("  Process name: [[35161,1],3]\n  Exit code:    1\n", "process_failed", 3),
        ("[rank0]: RuntimeError: [Rank 0]: Ranks 5 failed to pass monitoredBarrier in 60 ms\n",
         "collective_timeout", 5),
    ],
)  # fmt: skip
def test_other_last_words(write, text, cause, rank):
    found = read.failure(write("a.log", steps(1, 2) + text))
    assert (found.cause, found.rank) == (cause, rank)


PREFIXES = [
    "[pod/train-worker-3/pytorch] ",
    "worker-3  | ",
    "2026-03-04T10:00:0{n}.123456789Z stderr F ",
    "Mar 04 10:00:0{n} node3 python[4411]: ",
    "Mar 04 10:00:0{n} ",
    "10:00:0{n} ",
    "2026/03/04 10:00:0{n} ",
    "2026-03-04 10:00:0{n},123 ERROR ",
    "[1,mpirank:3,algo-1]<stderr>:",
]


def prefixed(error: str, before: str) -> str:
    lines = traceback(error).splitlines(keepends=True)
    return "".join(before.format(n=n) + line for n, line in enumerate(lines))


@pytest.mark.parametrize("before", PREFIXES)
@pytest.mark.parametrize("error", ["KeyError: 'x'", "triton.errors.OutOfResources: shared memory"])
def test_whatever_stands_before_a_traceback_stands_before_its_end(write, before, error):
    other = before.format(n=1).replace("3", "4") + "something of another process\n"
    found = read.failure(write("a.log", other + prefixed(error, before) + other))
    assert (found.cause, found.details["type"]) == (
        "python_error",
        error.split(":")[0].split(".")[-1],
    )


def test_a_rank_behind_an_unknown_prefix(write):
    found = read.failure(write("a.log", prefixed("KeyError: 'x'", "[pod/a/b] [rank3]: ")))
    assert (found.cause, found.rank) == ("python_error", 3)


def test_a_log_level_before_the_traceback_alone(write):
    text = "2026-03-04 10:00:01,123 - root - ERROR - " + traceback("KeyError: 'x'")
    assert read.failure(write("a.log", text)).cause == "python_error"


@pytest.mark.parametrize(
    ("tasks", "memory"), [("task 3", True), ("tasks 2-3", False), ("tasks 0,3", False)]
)
def test_advice_for_one_that_was_killed_and_for_all_of_a_node(write, tasks, memory):
    found = read.failure(write("a.log", victims(CLOSED) + f"srun: error: n2: {tasks}: Killed\n"))
    assert ("host memory" in found.remedy) == memory
    assert ("--exclude" in found.remedy) != memory
