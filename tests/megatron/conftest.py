"""Answers from Megatron-LM's own source. Its programs do not run, so no GPU is needed.

`COURSE_MEGATRON` names a checkout; without one these tests are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "code")]
LONGEST_S = 600


@pytest.fixture(scope="session")
def megatron() -> Path:
    named = os.environ.get("COURSE_MEGATRON")
    if not named:
        pytest.skip("COURSE_MEGATRON names no checkout of Megatron-LM")
    checkout = Path(named)
    assert (checkout / "megatron" / "training" / "arguments.py").is_file(), f"not in {named}"
    return checkout


@pytest.fixture(scope="session")
def asked(megatron):
    """`asked("validate.py", question)` is the program's answer to a question, both in JSON. Only
    the program may import Megatron-LM."""

    def ask(program, question):
        done = subprocess.run(
            [sys.executable, str(HERE / program), str(megatron)], input=json.dumps(question),
            env=os.environ | {"CUDA_DEVICE_MAX_CONNECTIONS": ""},
            capture_output=True, text=True, check=False, timeout=LONGEST_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return ask
