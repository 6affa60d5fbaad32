"""What a process loads once is not counted as a step's time or a model's memory."""

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


WITHOUT_PROC = """
from pathlib import Path
import torch
from process import device

device.STATUS = Path("/nowhere/status")
use = device.MemoryUse(torch.device("cpu"))
held = torch.ones(16 * 2**20)
print(*use.bytes(), use.own_bytes())
"""


def test_where_the_kernel_keeps_no_account_memory_is_the_most_that_the_process_had():
    """So that lesson 06 has numbers to draw on macOS. A child of Linux begins with the most that
    its parent had: here that is a shell, which is small."""
    through_shell = ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", WITHOUT_PROC]
    done = subprocess.run(through_shell, cwd=CODE, capture_output=True, text=True, check=True)
    assert all(60e6 < int(size) < 100e6 for size in done.stdout.split()), "64 MiB were held"
