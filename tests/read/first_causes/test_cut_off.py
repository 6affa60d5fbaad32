"""A log that ends within a traceback shows a failure, but not which failure."""

from __future__ import annotations

import gzip

import pytest

from course_lib import read

HEAD = "iteration 1 | loss 9.0\n"
TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/home/me/train.py", line 40, in <module>\n'
    "    main()\n"
    '  File "/home/me/train.py", line 31, in main\n'
    "    loss = step(batch)\n"
    "           ^^^^^^^^^^^\n"
)
RAISED = "ZeroDivisionError: division by zero\n"


@pytest.mark.parametrize("prefix", ["", "[rank3]: ", "3: ", "node2: "])
def test_wherever_it_is_cut_something_is_found(tmp_path, prefix):
    log = tmp_path / "out.log"
    whole = HEAD + "".join(prefix + line + "\n" for line in (TRACEBACK + RAISED).splitlines())
    begins = whole.index("(most recent") + len("(most")
    for end in range(begins, len(whole) + 1):
        log.write_text(whole[:end])
        found = read.failure(log)
        assert found is not None, repr(whole[:end][-60:])
        raised = end > whole.index(RAISED)
        assert found.cause == ("python_error" if raised else "cut_off"), repr(whole[:end][-60:])


def test_the_last_line_is_told_with_its_number_and_rank(tmp_path):
    log = tmp_path / "out.log"
    log.write_text(HEAD + "".join(f"[rank3]: {line}\n" for line in TRACEBACK.splitlines()[:5]))
    found = read.failure(log)
    assert (found.cause, found.rank, found.line) == ("cut_off", 3, 6)
    assert found.evidence.endswith("loss = step(batch)")
    assert "cut off" in str(found)


def test_another_rank_that_said_it_is_believed(tmp_path):
    (tmp_path / "rank0.log").write_text(HEAD + TRACEBACK)
    (tmp_path / "rank1.log").write_text(HEAD + TRACEBACK + RAISED)
    found = read.failure([tmp_path / "rank0.log", tmp_path / "rank1.log"])
    assert (found.cause, found.rank) == ("python_error", 1)


def test_one_that_ended_and_did_no_harm_is_no_failure(tmp_path):
    log = tmp_path / "out.log"
    log.write_text(f"Exception ignored in: <function close>\n{TRACEBACK}{RAISED}{HEAD * 9}")
    assert read.failure(log) is None


def test_in_a_packed_log_too(tmp_path):
    log = tmp_path / "out.log.gz"
    with gzip.open(log, "wt") as file:
        file.write(HEAD * 5000 + TRACEBACK)
    assert read.failure(log).cause == "cut_off"
    assert read.failure(log).line == 5006
