"""A log reads the same whatever shell has written it."""

from __future__ import annotations

import gzip

import pytest

from course_lib import read
from course_lib.read import lines

LOG = (
    "naïve start, ünïcode ✓ 🌍\r\n"
    " [2026-04-15 11:19:02] iteration        1/      10 | consumed samples:            4 | "
    "elapsed time per iteration (ms): 100.0 | learning rate: 1.0E-04 | global batch size:     4 | "
    "lm loss: 9.0E+00 | loss scale: 1.0 | number of skipped iterations:   0 | "
    "number of nan iterations:   0 |\r\n"
    "[rank2]: Traceback (most recent call last):\r\n"
    '[rank2]:   File "train.py", line 3, in <module>\r\n'
    "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\r\n"
)
WRITTEN = {
    "UTF-8": LOG.encode(),
    "UTF-8 with a mark": LOG.encode("utf-8-sig"),
    "UTF-16": LOG.encode("utf-16"),
    "UTF-16, most significant byte first": b"\xfe\xff" + LOG.encode("utf-16-be"),
    "packed": gzip.compress(LOG.encode()),
    "packed UTF-16": gzip.compress(LOG.encode("utf-16")),
}


@pytest.mark.parametrize("how", WRITTEN)
def test_a_log_is_read_in_every_encoding(tmp_path, how):
    log = tmp_path / "out.log"
    log.write_bytes(WRITTEN[how])
    failure = read.failure(log)
    assert (failure.cause, failure.rank, failure.line) == ("cuda_oom", 2, 5)
    assert read.training_log(log).iterations["lm_loss"].tolist() == [9.0]


@pytest.mark.parametrize("end", [b"", b"\x0a", b"\x00\xd8", b"\xff"])
def test_utf_16_that_is_cut_or_broken_is_read_as_far_as_it_goes(tmp_path, end):
    log = tmp_path / "out.log"
    log.write_bytes(LOG.encode("utf-16") * 1 + end)
    assert read.failure(log).cause == "cuda_oom"


@pytest.mark.parametrize("block_bytes", [1, 7, 1 << 20])
def test_blocks_do_not_depend_on_their_size(tmp_path, block_bytes):
    log = tmp_path / "out.log"
    log.write_bytes(("ab✓🌍\n" * 3000).encode("utf-16"))
    assert b"".join(lines.blocks(log, block_bytes)) == ("ab✓🌍\n" * 3000).encode()
