"""A reader says that it understood nothing only if this is true."""

from __future__ import annotations

import pytest

from course_lib import read

FOREIGN = [
    "hello\nworld\n",
    "",
    "{'x': 1}\n",
    "epoch is over\n" * 50,
    "\x00\xff\n",
    "Lorem ipsum, dolor (sit) amet: consectetur.\n\n",
]
ITERATION = " iteration 1/ 9 | elapsed time per iteration (ms): 5.0 | lm loss: 2.0 |\n"


@pytest.mark.parametrize("text", FOREIGN)
def test_it_says_so(write, text):
    path = write("a.log", text)
    lines = text.count("\n")
    for reader in (read.training_log, read.nccl):
        assert str(reader(path)).startswith(f"nothing in these {lines} lines was understood")


@pytest.mark.parametrize("before", ["", "noise\n" * 200])
def test_one_line_that_is_understood_is_enough(write, before):
    assert "was understood" not in str(read.training_log(write("a.log", before + ITERATION)))
    line = "n1:7:7 [0] NCCL INFO NCCL version 2.18.3+cuda12.2\n"
    assert "was understood" not in str(read.nccl(write("b.log", before + line)))


def test_no_real_log_says_so(logs):
    for folder in ("megatron", "other-trainers"):
        for path in sorted((logs / folder).iterdir()):
            assert "was understood" not in str(read.training_log(path)), path.name
    for path in sorted((logs / "nccl").iterdir()):
        assert "was understood" not in str(read.nccl(path)), path.name
