"""A program of a learner's own, as ranks of a job run it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from worlds import ROOT

SLOW_S = 1.5
OVER_AT_ONCE = f"""
import time
import torch.distributed as dist
from torch.distributed import distributed_c10d as inside

connect = inside._new_process_group_helper


def slowly(*args, **named):
    group = connect(*args, **named)
    if inside.os.environ["RANK"] == "0":
        time.sleep({SLOW_S})
    return group


inside._new_process_group_helper = slowly
began = time.monotonic()
dist.init_process_group("gloo")
print(f"rank {{dist.get_rank()}}: {{time.monotonic() - began}}", flush=True)
"""


def ranks_of(file, size):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size)}
    return [
        subprocess.Popen(
            [sys.executable, ROOT / "code/run_own.py", file],
            env={**os.environ, **where, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def test_no_rank_is_gone_before_the_last_has_connected(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(OVER_AT_ONCE)
    processes = ranks_of(file, 2)
    told = [process.communicate(timeout=100)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    waited_s = [float(line.split(": ")[1]) for line in told]
    assert min(waited_s) > SLOW_S - 0.3
