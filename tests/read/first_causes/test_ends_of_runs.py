"""An error that a run survived is not why it ended: warnings, tracebacks, lost losses."""

from __future__ import annotations

import pytest

from course_lib import read

from .runs import steps, traceback

LIMIT = (
    "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2024-01-01T00:00:00 DUE TO TIME LIMIT ***\n"
)
BEFORE = ["", "0: ", "3: [default1]: ", "[rank2]: ", "n1: "]


WARNINGS = [
    "WARNING: could not import the fused kernels",
    "2026-04-15 11:19:02,123 - WARNING - tokenizer cache not written",
    "/a/b.py:12: UserWarning: no profiler",
    "[W415 11:19:02.1 init.cpp:12] no profiler",
    "WARNING:root:upload failed",
    "Exception ignored in: <function Loader.__del__ at 0x7f>",
    "--- Logging error ---",
    "telemetry failed, continuing without it",
]

ERRORS = ["ValueError: no", "PermissionError: [Errno 13] Permission denied: '/x'", "Odd: x"]


@pytest.mark.many(3)
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("warning", WARNINGS)
def test_a_warning_with_a_traceback_is_no_cause(write, warning, before):
    error = ERRORS[len(warning + before) % len(ERRORS)]
    text = f"{before}{warning}\n" + traceback(error, before)
    for run in ("", "{'loss': 2.0, 'epoch': 0.1}\n", steps(1, 2, before=before)):
        ended = read.failure(write("a.log", run + text + LIMIT))
        assert (ended.cause, ended.node) == ("time_limit", "n1")
    assert read.failure(write("a.log", text + steps(1, 2, 2))) is None
    assert read.failure(write("a.log", steps(1, 2, 2) + text)) is None
    real = read.failure(write("a.log", text + traceback("KeyError: 'real'", before)))
    assert real.details["message"] == "'real'"


CANCELLED = LIMIT.replace(" DUE TO TIME LIMIT", "")


@pytest.mark.parametrize("what", ["JOB 7", "STEP 7.0"])
@pytest.mark.parametrize("end", ["training finished\n", "INFO: training done in 7 s\n"])
def test_a_finished_run_that_was_cancelled_has_no_cause(write, end, what):
    run, cancelled = steps(1, 2), CANCELLED.replace("JOB 7", what)
    assert read.failure(write("a.log", run + cancelled)).cause == "cancelled"
    assert read.failure(write("a.log", run + end + cancelled)) is None
    assert read.failure(write("a.log", cancelled + run + end)) is None
    assert read.failure(write("a.log", run + end + LIMIT)).cause == "time_limit"


def test_one_raised_while_a_warning_was_handled_is_none_either(write):
    text = "WARNING: x\n" + traceback("KeyError: 1")
    text += "\nDuring handling of the above exception, another exception occurred:\n\n"
    assert read.failure(write("a.log", text + traceback("ValueError: 2") + LIMIT)).cause == (
        "time_limit"
    )


def test_what_went_on_after_a_traceback_without_a_warning(write):
    error = traceback("ValueError: optional")
    went_on = read.failure(write("a.log", error + steps(1, 2) + LIMIT))
    assert went_on.cause == "time_limit"
    other = "".join(f"{{'loss': 2.0, 'learning_rate': 1e-5, 'epoch': 0.{n}}}\n" for n in (1, 2, 3))
    assert read.failure(write("a.log", error + other + LIMIT)).cause == "time_limit"


def test_ranks_that_wait_for_one_that_broke_until_the_limit(write):
    """The last iteration may be printed after another rank broke."""
    text = steps(1, 3) + traceback("ValueError: real", "[rank1]: ") + steps(4, 4) + LIMIT
    found = read.failure(write("a.log", text))
    assert (found.cause, found.rank) == ("python_error", 1)


@pytest.mark.parametrize(
    "noise",
    [
        traceback("ValueError: early") + steps(1, 2, 2),
        steps(1, 2, 2) + "[rank1]: RuntimeError: Connection closed by peer [10.0.0.1]:3456\n",
        steps(1, 2, 2) + "[rank0]:[W101 10:00:00.1 x.cpp:1] Permission denied\n",
        steps(1, 2, 2) + "OSError: [Errno 9] Bad file descriptor\n",
        steps(1, 1, 2) + "RuntimeError: x\n" + steps(2, 2, 2),
    ],
)
def test_a_finished_run_has_no_failure(write, noise):
    assert read.failure(write("a.log", noise)) is None


def test_a_run_that_cannot_save_its_last_step_has_failed(write):
    text = steps(1, 2, 2) + traceback("OSError: [Errno 28] No space left on device", "[rank0]: ")
    assert read.failure(write("a.log", text)).cause == "file_system"
    text = steps(1, 2, 2) + "OSError: [Errno 28] No space left on device\n"
    text += "srun: error: n1: task 0: Exited with exit code 1\n"
    assert read.failure(write("a.log", text)).cause == "file_system"


@pytest.mark.parametrize("end", ["", LIMIT])
@pytest.mark.parametrize("lost", ["nan", "NaN", "inf", "-inf"])
@pytest.mark.parametrize("before", BEFORE[::2])
@pytest.mark.parametrize("total", [6, 9])
def test_losses_that_are_no_numbers_are_a_divergence_without_any_counter(
    write, lost, before, total, end
):
    text = steps(1, 3, total, before) + steps(4, 6, total, before, lost) + end
    found = read.failure(write("a.log", text))
    assert (found.cause, found.line, found.details["iteration"]) == ("nan_loss", 4, 4)
    assert len(found.consequences) == bool(end)


def test_megatron_leaves_out_a_loss_that_is_no_number(write):
    text = steps(1, 3) + steps(4, 6, loss="x").replace(" lm loss: x |", "")
    found = read.failure(write("a.log", text))
    assert (found.cause, found.details["iteration"]) == ("nan_loss", 4)
    skipped = text.replace("skipped iterations: 0", "skipped iterations: 1")
    assert read.failure(write("a.log", skipped)) is None
    assert read.failure(write("a.log", steps(1, 6, loss="x").replace(" lm loss: x |", ""))) is None


def test_gradients_that_are_no_numbers_are_named(write):
    text = steps(1, 3) + steps(4, 9).replace("lm loss: 2.0", "grad norm: nan")
    assert "grad norm: nan" in read.failure(write("a.log", text)).evidence


def test_a_loss_that_recovers_is_no_divergence(write):
    text = steps(1, 3) + steps(4, 5, loss="nan") + steps(6, 8)
    assert read.failure(write("a.log", text)) is None


def test_other_trainers_diverge_too(write):
    text = "".join(f"{{'loss': {2.0 if n < 4 else 'nan'}, 'epoch': {n / 10}}}\n" for n in range(9))
    assert read.failure(write("a.log", text)).cause == "nan_loss"


def test_a_port_below_1024_is_not_taken(write):
    text = (
        "[rank0]: torch.distributed.DistNetworkError: The server socket has failed to listen on "
        "any local network address. port: 443, useIpv6: false, code: -13, name: EACCES, message: "
        "permission denied\n"
    )
    found = read.failure(write("a.log", text))
    assert (found.cause, found.rank) == ("port_forbidden", 0)
    assert "1024" in found.remedy


def test_a_missing_variable_is_named(write):
    text = traceback("KeyError: 'MASTER_ADDR'", "2: ")
    found = read.failure(
        write("a.log", text + "srun: error: n1: task 2: Exited with exit code 1\n")
    )
    assert (found.cause, found.rank, found.details["variable"]) == (
        "missing_master",
        2,
        "MASTER_ADDR",
    )
    assert "torchrun" in found.remedy


@pytest.mark.parametrize(
    ("code", "cause"), [("5", "process_failed"), ("-6", "aborted"), ("-15", "terminated")]
)
def test_torchruns_own_signals_are_no_cause(write, code, cause):
    """torchrun first reports the processes that it ends, and then the process that failed."""
    text = (
        "W1124 03:56:13.541 18652 torch/distributed/elastic/multiprocessing/api.py:1028] Sending "
        "process 18712 closing signal SIGTERM\n"
        "E1124 03:56:13.578 18652 torch/distributed/elastic/multiprocessing/api.py:1002] failed "
        f"(exitcode: {code}) local_rank: 1 (pid: 18713) of binary: /usr/bin/python\n"
    )
    assert read.failure(write("a.log", text)).cause == cause


def test_memory_of_others_is_counted(write):
    text = (
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 "
        "has a total capacity of 80.00 GiB of which 1.00 GiB is free. Process 31 has 71.00 GiB "
        "memory in use. Including non-PyTorch memory, this process has 8.00 GiB memory in use. Of "
        "the allocated memory 7.50 GiB is allocated by PyTorch, and 1.00 MiB is reserved by "
        "PyTorch but unallocated.\n"
    )
    found = read.failure(write("a.log", text))
    assert (found.cause, found.rank) == ("device_shared", 1)
    assert found.details["others_bytes"] == 71 * 2**30
    mine = text.replace("has 71.00", "has 8.00").replace("process has 8.00", "process has 71.00")
    assert read.failure(write("a.log", mine)).cause == "cuda_oom"


def test_a_controller_that_a_running_job_missed_for_a_moment_is_no_cause(write):
    text = "squeue: error: Unable to contact slurm controller (connect failure)\n"
    found = read.failure(write("a.log", text + traceback("ValueError: real")))
    assert found.cause == "python_error"
    assert read.failure(write("a.log", text + steps(1, 2, 2))) is None
