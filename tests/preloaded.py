"""Modules that ranks of tests import: loaded once, in the server that forks the ranks."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from pathlib import Path

NAMES = (
    "torch", "torch._dynamo", "torch.distributed", "torch.distributed.checkpoint",
    "torch.distributed.fsdp", "torch.distributed.tensor.parallel", "torch.utils.tensorboard",
    "numpy.random", "tabulate", "try_own",
)  # fmt: skip

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # as every script of the course does
code = str(Path(__file__).resolve().parents[1] / "code")
sys.path.insert(0, code)
for name in NAMES:
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
sys.path.remove(code)
gc.freeze()  # a collection in a rank would visit, and so copy, the pages of all these objects
