"""Any failing rank is reported once, and no other rank waits for it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from plain_ranks import plain_ranks

from process.errors import DataError

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
def test_a_rank_that_was_killed_is_named_once(case):
    """This holds even if no library notices, and if a child of the dead rank survives."""
    what, killed = case.rsplit(" ", 1)
    codes, text = plain_ranks(PROGRAM, what if what.endswith("end") else case, size=3)
    killed = int(killed)
    assert codes == [-signal.SIGKILL if n == killed else 1 for n in range(3)], text
    [(_, cause, teller)] = LINE.findall(text)
    assert cause.startswith(f"lost rank {killed} (on "), text
    assert int(teller) == (1 if killed == 0 else 0)
    assert len(text.splitlines()) == 1, text


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3])
def test_control_c_ends_all_ranks_with_one_line(size):
    codes, text = plain_ranks(PROGRAM, "interrupted", size=size)
    assert codes == [130] * size
    assert len(text.splitlines()) == 1, text
    assert "failing_rank.py: error: KeyboardInterrupt: ended by Control-C" in text


@pytest.mark.slow
def test_ranks_whose_launcher_was_killed_end_with_one_sentence():
    _, text = torchrun("launcher")  # the output ends when the last rank ends
    assert [told[:21] for _, told, _ in LINE.findall(text)] == ["lost torchrun's agent"], text


def test_frames_of_cpp_are_not_told():
    from process.errors import error_lines

    framed = """no way to the store
Exception raised from doWait at TCPStore.cpp:138 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation) + 0x9d (0x7f6461d21b8d in libc10.so)
<omitting python frames>
frame #21: <unknown function> + 0x1098ec (0x7f64629278ec in libc.so.6)
"""
    assert error_lines(RuntimeError(framed), 1, 2)[-1].startswith(
        "[rank1]: RuntimeError: no way to the "
    )
    assert len(error_lines(DataError(framed), 1, 2)) == 1
    assert "frame" not in error_lines(DataError(framed), 1, 2)[0]


def test_what_the_system_says_of_a_file_is_told_in_one_line(tmp_path):
    """Other errors have their traceback."""
    from dataset.tokenizer_files import read_vocabulary
    from process.errors import error_lines

    long = tmp_path / ("x" * 300)
    with pytest.raises(OSError, match="too long") as error:
        read_vocabulary(long)
    [line] = error_lines(error.value, 1, 2)
    assert line.startswith("[rank1]: ")
    assert "error: OSError: [Errno 36] File name too long: " in line
    [line] = error_lines(BrokenPipeError(32, "Broken pipe"), 0, 1)
    assert "nothing reads its output any more" in line


@pytest.mark.slow
@pytest.mark.parametrize("case", ["slow end", "stopped"])
def test_a_rank_that_is_slow_or_stopped_is_not_dead(case):
    assert plain_ranks(PROGRAM, case, size=3) == ([0, 0, 0], "")


@pytest.mark.slow
def test_a_rank_prints_the_traceback_of_an_unexpected_error():
    codes, text = plain_ranks(PROGRAM, "bug", size=3)
    assert codes == [1, 1, 1]
    assert set(re.findall(r"^\[rank(\d)\]: ", text, re.MULTILINE)) == {"1"}
    assert re.search(
        r"^\[rank1\]: RuntimeError: nobody foresaw this \(rank 1 on ", text, re.MULTILINE
    )
