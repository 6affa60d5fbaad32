"""Logs without a failure give no cause: printed source, configuration, finished runs."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import pytest
import torch.distributed.distributed_c10d as c10d
import torch.distributed.run as torchrun
import torch.serialization as serialization

from course_lib import read
from course_lib.read.first_causes import rules

from .runs import steps, traceback

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
BEFORE = ["", "0: ", "[rank0]: ", "n1: "]
CONFIGURATION = {
    "retry": ["CUDA out of memory", "Connection reset by peer", "NCCL error"],
    "message": "Loss is nan, stopping training",
    "exit_signal": "SIGABRT",
    "missing": "No module named 'apex'",
    "nccl_timeout": 1800,
}
SCRIPT = """\
#!/bin/bash
# on "CUDA out of memory" scancel the job
trap 'echo "RuntimeError: CUDA out of memory"; exit 137' ERR
if ! srun python train.py; then
  echo "Error: Segmentation fault or No space left on device" >&2
fi
case $? in
  137) echo "Killed";;
esac
"""


def _dotted(entries: dict[str, object]) -> str:
    return "".join(
        f"  {name} {'.' * (40 - len(name))} {value}\n" for name, value in entries.items()
    )


def _yaml(entries: dict[str, object]) -> str:
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in entries.items())


def _listed(text: str) -> str:
    return "".join(f"{number:6d}\t{line}\n" for number, line in enumerate(text.splitlines(), 1))


def _found(text: str) -> str:
    lines = enumerate(text.splitlines(), 1)
    return "".join(f"a/b.py:{number}:{line}\n" for number, line in lines if "rror" in line)


SOURCE = {
    module.__name__: inspect.getsource(module) for module in (c10d, torchrun, serialization, rules)
}
PRINTED = SOURCE | {
    "script": SCRIPT,
    "traced script": "".join(f"+ {line}\n" for line in SCRIPT.splitlines()),
    "arguments": _dotted(CONFIGURATION),
    "yaml": _yaml(CONFIGURATION),
    "json": json.dumps(CONFIGURATION, indent=2),
    "json line": json.dumps(CONFIGURATION),
    "cat -n": _listed(SOURCE["torch.distributed.run"]),
    "grep": _found(SOURCE["torch.distributed.distributed_c10d"]),
}


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("what", PRINTED)
def test_printed_text_is_no_event_and_hides_none(write, what, before):
    text = "".join(f"{before}{line}\n" for line in PRINTED[what].splitlines())
    assert read.failure(write("a.log", text)) is None
    for error in (traceback(OOM, before), f"{before}{OOM}\n", f"{before}Loss is nan, stopping\n"):
        for log in (text + error, steps(1, 3) + error + steps(4, 4) + text):
            assert read.failure(write("a.log", log)).cause in ("cuda_oom", "nan_loss")


@pytest.mark.parametrize("arguments", [["-m", "pip", "install"], ["-m", "torch.distributed.run"]])
def test_a_help_text_tells_of_no_failure(write, arguments):
    shown = subprocess.check_output([sys.executable, *arguments, "--help"])
    assert read.failure(write("a.log", shown)) is None


FINISHED = [
    "[after training is done] datetime: 2026-04-15 11:20:00",
    "[exiting program after 9 iterations] datetime: 2026-04-15 11:20:00",
    "[titan] 2026-04-15 11:20:00,123 - root - INFO - Training completed",
    "`Trainer.fit` stopped: `max_steps=100` reached.",
    "{'train_runtime': 12.1, 'train_loss': 1.2, 'epoch': 2.0}",
    ':::MLLOG {"key": "run_stop", "value": null, "metadata": {"lineno": 3, "status": "success"}}',
    "slurm epilog: job 41 COMPLETED, exit code 0:0",
    "step:2035/2035 val_loss:3.2777",
    "Final test accuracy: 0.98",
]
ON_THE_WAY = [
    "Permission denied: /scratch/cache",
    "run.sh: line 13: sudo: command not found",
    "n1:7:8 [0] plugin.c:2 NCCL WARN NET/IB : coll init error: Cannot create job(-11)",
    "ImportError: libfoo.so: cannot open shared object file: No such file or directory",
    traceback(OOM).strip(),
]


@pytest.mark.parametrize("end", FINISHED)
@pytest.mark.parametrize("early", ON_THE_WAY)
def test_nothing_before_a_run_has_finished_is_a_cause(write, early, end):
    for before in ("", steps(1, 3)):
        text = f"{before}{early}\n{end}\n"
        assert read.failure(write("a.log", text)) is None
        late = read.failure(write("a.log", text + traceback("KeyError: 'late'")))
        assert "late" in late.evidence


@pytest.mark.parametrize(
    "end",
    [
        "Training failed",
        "before training is done",
        'print("Training completed")',
        '{"key": "run_stop", "metadata": {"status": "aborted"}}',
        "step:34/2035 train_time:79ms",
        "Job 41 FAILED, exit code 1:0",
    ],
)
def test_what_does_not_say_that_a_run_finished_excuses_nothing(write, end):
    assert read.failure(write("a.log", f"{OOM}\n{end}\n")).cause == "cuda_oom"


def test_a_script_that_says_so_after_a_process_failed_is_not_believed(write):
    text = traceback(OOM) + "srun: error: n1: task 0: Exited with exit code 1\nTraining completed\n"
    assert read.failure(write("a.log", text)).cause == "cuda_oom"
