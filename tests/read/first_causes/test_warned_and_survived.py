"""A warning before a traceback excuses it only if the run went on, whatever program it ran."""

from __future__ import annotations

import pytest

from course_lib import read

from .runs import steps, traceback

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
PEER = "[W304 10:00:00.1 socket.cpp:697] [c10d] The client socket has failed to connect to [n1]:29500 (errno: 111 - Connection refused).\n"  # noqa: E501
EXITED = "srun: error: n1: task 0: Exited with exit code 1\n"

WARNINGS = {
    "python": "/a/b.py:12: UserWarning: dropout is on\n  warnings.warn(\n",
    "logger": "2026-03-04 10:00:01,123 WARNING no checkpoint found, starting from scratch\n",
    "torchrun": "W0304 10:00:00.000000 77 torch/distributed/run.py:793] *******\n",
    "socket": PEER,
    "words": "skipping 3 short documents\n",
}


def loss(n: int) -> float:
    return 3 - n / 100


PROGRESS = {
    "megatron": lambda n: steps(n, n),
    "hugging_face": lambda n: f"{{'loss': {loss(n)}, 'learning_rate': 1e-5, 'epoch': {n / 10}}}\n",
    "step": lambda n: f"step {n}: loss {loss(n)}, time 12.3ms\n",
    "iter": lambda n: f"iter {n}: loss {loss(n)}\n",
    "capital": lambda n: f"Step {n}, loss={loss(n)}\n",
    "lightning": lambda n: f"Epoch 0:  {n}%|#   | {n}/100 [00:01<00:10, 2.0it/s, v_num=0]\r",
    "deepspeed": lambda n: f"[Rank 0] step={n}, skipped=0, lr=[1e-05], mom=[(0.9, 0.95)]\n",
    "timer": lambda n: f"epoch=0/micro_step={n}/global_step={n}, RunningAvgSamplesPerSec=12.5\n",
}
SUMMARY = "{'train_runtime': 12.1, 'train_loss': 1.2, 'epoch': 2.0}\n"


def run(form: str, first: int, last: int) -> str:
    return "".join(PROGRESS[form](n) for n in range(first, last + 1)) + "\n"


@pytest.mark.parametrize("warning", WARNINGS)
@pytest.mark.parametrize("before", ["", "[rank1]: ", "3: [default1]: "])
def test_a_warning_before_the_last_traceback_does_not_hide_it(write, warning, before):
    lines = "".join(f"{before}{line}\n" for line in WARNINGS[warning].splitlines())
    for error, cause in ((OOM, "cuda_oom"), ("Odd: x", "python_error")):
        for end in ("", EXITED):
            found = read.failure(write("a.log", lines + traceback(error, before) + end))
            assert found.cause == cause


@pytest.mark.parametrize("warning", WARNINGS)
@pytest.mark.parametrize("form", PROGRESS)
def test_a_warned_traceback_is_harmless_if_steps_follow(write, warning, form):
    text = run(form, 1, 3) + WARNINGS[warning] + traceback("KeyError: 'x'") + run(form, 4, 8)
    assert read.failure(write("a.log", text)) is None


@pytest.mark.parametrize("end", [SUMMARY, "training finished after 40 steps\n"])
def test_a_traceback_is_harmless_if_the_run_ended(write, end):
    text = run("hugging_face", 1, 3) + traceback("OSError: [Errno 5] Input/output error")
    assert read.failure(write("a.log", text + end)) is None
    assert read.failure(write("a.log", text)).cause == "file_system"


@pytest.mark.parametrize("form", PROGRESS)
def test_what_any_trainer_survived_does_not_hide_what_came_later(write, form):
    early = run(form, 1, 5) + traceback("ValueError: eval set is empty") + run(form, 6, 12)
    assert read.failure(write("a.log", early)) is None
    late = traceback("RuntimeError: CUDA error: uncorrectable ECC error", "[rank3]: ")
    found = read.failure(write("a.log", early + late))
    assert (found.cause, found.rank) == ("broken_device", 3)


def test_one_step_that_all_other_ranks_tell_of_is_one(write):
    others = "".join(f"[rank{rank}]: step 4: loss 2.0\n" for rank in range(8) if rank != 3)
    text = run("step", 1, 3) + traceback("KeyError: 'x'", "[rank3]: ") + others
    assert read.failure(write("a.log", text)).rank == 3


@pytest.mark.parametrize("before", ["", "[rank2]: "])
def test_a_real_traceback_goes_before_one_that_python_ignored(write, before):
    ignored = f"{before}Exception ignored in: <function Loader.__del__ at 0x7f>\n"
    ignored += traceback("AttributeError: 'NoneType' object has no attribute 'x'", before)
    assert read.failure(write("a.log", traceback(OOM, before) + ignored)).cause == "cuda_oom"
    assert read.failure(write("a.log", ignored)) is None


def test_a_signal_that_torchrun_warns_of(write):
    text = "W0304 12:00:00.1 1 api.py:741] Received Signals.SIGTERM death signal, shutting down\n"
    text += traceback("torch.distributed.elastic.api.SignalException: Process 55 got signal: 15")
    assert read.failure(write("a.log", steps(1, 3) + text)).cause == "terminated"


@pytest.mark.parametrize("form", PROGRESS)
def test_a_peer_that_came_a_little_later_is_no_failure(write, form):
    assert read.failure(write("a.log", PEER * 3 + run(form, 1, 2))) is None
    assert read.failure(write("a.log", PEER * 3)) is None


def test_a_peer_that_never_came_is_one(write):
    assert read.failure(write("a.log", PEER * 3 + EXITED)).cause == "rendezvous_timeout"


@pytest.mark.parametrize("form", ["{}", "'{}'"])
def test_gradients_without_numbers_beside_a_loss_of_0(write, form):
    def row(loss: str, norm: str) -> str:
        loss, norm = form.format(loss), form.format(norm)
        return f"{{'loss': {loss}, 'grad_norm': {norm}, 'learning_rate': 5e-05, 'epoch': 0.1}}\n"

    good, bad = row("2.5", "1.0"), row("0.0", "nan")
    found = read.failure(write("a.log", good * 2 + bad * 4))
    assert (found.cause, found.line) == ("nan_loss", 3)
    assert read.failure(write("a.log", bad * 4)).cause == "nan_loss"
    assert read.failure(write("a.log", good * 2 + bad * 4 + good)) is None
    assert read.failure(write("a.log", row("2.5", "nan") * 4)) is None
