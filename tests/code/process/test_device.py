"""One-time loading counts neither as the time of a step nor as memory of the model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CODE = Path(__file__).resolve().parents[3] / "code"
PROGRAM = """
import sys
import torch
from process import device

device.load_what_the_first_step_loads()
use = device.MemoryUse(torch.device("cpu"))
before, held = set(sys.modules), torch.ones(2**18, requires_grad=True)
held.mul(2).backward(torch.ones(2**18))
print(len(set(sys.modules) - before), use.own_bytes())
"""


def test_the_first_backward_pass_loads_nothing_any_more():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=CODE, capture_output=True, text=True, check=True
    )
    modules, own_bytes = map(int, done.stdout.split())
    assert modules <= 3
    assert 2 * 4 * 2**18 <= own_bytes <= 8 * 4 * 2**18, "the tensor, its gradient, and a few more"
