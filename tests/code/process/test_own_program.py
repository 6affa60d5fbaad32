"""A learner's own program, as the ranks of a job run it."""

from __future__ import annotations

import re

from plain_ranks import plain_ranks
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


def test_no_rank_is_gone_before_the_last_has_connected(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(OVER_AT_ONCE)
    codes, text = plain_ranks(ROOT / "code/run_own.py", file, size=2)
    assert codes == [0, 0]
    waited_s = [float(found) for found in re.findall(r"^rank \d: (\S+)$", text, re.MULTILINE)]
    assert len(waited_s) == 2
    assert min(waited_s) > SLOW_S - 0.3
