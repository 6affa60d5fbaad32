"""Whichever rank fails is heard, once, and no other rank waits for it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from plain_ranks import plain_ranks

from process.telling import counted

PROGRAM = Path(__file__).with_name("failing_rank.py")
CASES = {
    "arguments": ({"--first 0: use 1 or more", "--second nan: use a number"}, 2),
    "late": ({"no data anywhere"}, 1),
    "before": ({"no data at there.bin"}, 1),
    "one": ({"no data at here.bin"}, 1),
    "several": ({"here", "there"}, 1),
}
LINE = re.compile(
    r"^\[rank(\d)\]: failing_rank\.py: error: (.+) \(rank (\d) on \S+\)$", re.MULTILINE
)
NOTE = re.compile(
    r"^\[rank(\d)\]: note: (ranks? .+) found the same \(rank \1 on \S+\)$", re.MULTILINE
)


def torchrun(case):
    launcher = "-m torch.distributed.run --standalone --nproc-per-node 3"
    done = subprocess.run(
        [sys.executable, *launcher.split(), str(PROGRAM), case],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout


@pytest.mark.many(2)
@pytest.mark.slow
@pytest.mark.parametrize("case", ["arguments", "one", "several"])
def test_every_cause_is_told_once_under_torchrun(case):
    code, text = torchrun(case)
    causes, _ = CASES[case]
    assert code != 0
    assert sorted(told for _, told, _ in LINE.findall(text)) == sorted(causes), text


@pytest.mark.parametrize(
    ("ranks", "told"),
    [
        ([2], "rank 2"),
        ([0, 3], "ranks 0 and 3"),
        (list(range(12)), "ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 11"),
        (list(range(14)), "ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more"),
    ],
)
def test_many_ranks_are_counted(ranks, told):
    assert counted(ranks) == told


@pytest.mark.many(2)
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_cause_is_told_once_and_all_ranks_end_without_a_launcher(case):
    codes, text = plain_ranks(PROGRAM, case, size=3)
    causes, expected = CASES[case]
    found = LINE.findall(text)
    assert sorted(told for _, told, _ in found) == sorted(causes), text
    assert all(before == behind for before, _, behind in found)
    assert expected in codes
    assert 0 not in codes
    assert "Traceback" not in text
    others = " and ".join(sorted({"0", "1", "2"} - {found[0][0]}))
    told = [(found[0][0], f"ranks {others}")] if case == "late" else []  # "arguments" all have
    assert NOTE.findall(text) == told


@pytest.mark.many(2)
@pytest.mark.slow
@pytest.mark.parametrize("case", ["killed 2", "killed unnoticed 0", "killed at the end 1"])
def test_a_rank_that_was_killed_is_named_once_by_the_one_before_it(case):
    """Whether or not a library notices, and though a child of the dead one lives on."""
    what, killed = case.rsplit(" ", 1)
    codes, text = plain_ranks(PROGRAM, what if what.endswith("end") else case, size=3)
    killed = int(killed)
    assert codes == [-signal.SIGKILL if n == killed else 1 for n in range(3)], text
    [(_, cause, teller)] = LINE.findall(text)
    assert cause.startswith(f"lost rank {killed} (on "), text
    assert int(teller) == (killed - 1) % 3
    assert "Traceback" not in text


@pytest.mark.slow
def test_torchrun_names_a_rank_that_was_killed():
    code, text = torchrun("killed 1")
    assert code != 0
    assert re.search(r"rank +: 1 .*\n.*exitcode +: -9|Signal 9 \(SIGKILL\)", text), text


@pytest.mark.parametrize(
    "said",
    [
        "[../gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.2]:4321",
        "[../gloo/transport/tcp/buffer.cc:100] Connection reset by peer",
        "NCCL error: remote process exited or there was a network error, ncclRemoteError",
        "NCCL communicator was aborted on rank 1.",
        "Failed to recv, got 0 bytes. Connection was likely closed.",
        "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE)",
    ],
)
def test_the_libraries_words_for_a_lost_peer_are_known(said):
    from process.failing import PEER_GONE

    assert PEER_GONE.search(said)


def test_what_the_system_says_of_a_file_is_told_in_one_line(tmp_path):
    """With the place that wanted it, where that is one of ours; anything else has its traceback."""
    from dataset.tokenizer_files import read_vocabulary
    from process.telling import told

    long = tmp_path / ("x" * 300)
    with pytest.raises(OSError, match="too long") as error:
        read_vocabulary(long)
    [line] = told(error.value, 1, 2)
    assert line.startswith("[rank1]: ")
    assert "error: OSError: [Errno 36] File name too long: " in line
    assert re.search(r"\(at dataset/tokenizer_files\.py:\d+\) \(rank 1 on ", line)
    [line] = told(BrokenPipeError(32, "Broken pipe"), 0, 1)
    assert "nobody reads what is printed any more" in line


@pytest.mark.slow
@pytest.mark.parametrize("case", ["slow end", "stopped"])
def test_a_rank_that_is_slow_or_stopped_is_not_dead(case):
    assert plain_ranks(PROGRAM, case, size=3) == ([0, 0, 0], "")


@pytest.mark.slow
def test_what_nobody_foresaw_is_told_with_its_traceback_by_the_rank_that_met_it():
    codes, text = plain_ranks(PROGRAM, "bug", size=3)
    assert codes == [1, 1, 1]
    assert set(re.findall(r"^\[rank(\d)\]: ", text, re.MULTILINE)) == {"1"}
    assert re.search(
        r"^\[rank1\]: RuntimeError: nobody foresaw this \(rank 1 on ", text, re.MULTILINE
    )


def test_the_reader_of_failures_finds_rank_and_reason(tmp_path):
    from course_lib.read import failure

    log = tmp_path / "out.log"
    log.write_text(
        "[default2]:[rank2]: pretrain_gpt.py: error: no data at there.bin (rank 2 on node2)\n"
    )
    found = failure(log)
    assert found.rank == 2
    assert "no data at there.bin" in str(found)
