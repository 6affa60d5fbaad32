"""Whatever is typed after `course`, the answer is a sentence and never a traceback."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys

import pytest

from course_lib import cli
from course_lib.lab import workspace
from course_lib.lab.commands import jobs
from course_lib.publish import run as course_run

WORDS = (
    "", " ", "nan", "-1", "1e999", "٣", "9" * 5000, "é" * 300, "../..", "/", "\udcff", "two\nlines",
    "$(touch pwned)", "'", "--no-such", "=1", "[" * 3000, "{run}", "%s", "\x1b[2J",
)  # fmt: skip
LINES = (
    "{}", "runs {}", "runs -n {}", "log {}", "log -n {}", "cancel {}", "clean {}",
    "budget {}", "site {}", "site show {}", "site use {}",
    "render {}", "render --site {} x", "submit {}",
    "doctor {}", "doctor --site {}", "shell {}", "shell --site {}", "build {}", "run 00 x{}",
    "run nothing --workspace {}", "lessons {}",
    "progress {}", "progress --workspace {}", "progress --learner {}", "bench {}", "bench --tag {}",
    "bench --tag 13 --tensor {}", "bench --tag 13 --machine {}", "bench --jube --site {}",
)  # fmt: skip


@pytest.fixture
def course(tmp_path, monkeypatch, capsys, fake_slurm):
    """`course("runs")` → exit code and all that was said; fails on a traceback."""
    fake_slurm()
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "site.toml").write_text('name = "slurm"\nbox = false\n')
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("COURSE_WORKSPACE", str(workspace))
    monkeypatch.setattr(course_run, "run_lesson", _must_not_happen)
    monkeypatch.setattr(jobs.os, "execl", lambda *_: print("a shell"))

    def call(*words, may_say_nothing=False):
        capsys.readouterr()
        try:
            code = cli.main(list(words))
        except SystemExit as left:
            code = left.code
        said = "".join(capsys.readouterr())
        assert code in (0, 1, 2), words
        assert said.strip() or may_say_nothing, f"nothing was said to {words}"
        assert "Traceback" not in said, words
        return code, said

    return call


def _must_not_happen(*_: object) -> None:
    raise AssertionError("a lesson was run for a bad input")


@pytest.mark.parametrize("line", LINES)
def test_any_word_anywhere_is_answered_in_words(course, line):
    for word in WORDS:
        course(*(part.replace("{}", word) for part in line.split()))


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["bud"], "did you mean `course budget`?"),
        (["sumbit"], "did you mean `course submit`?"),
        (["no-such-thing-at-all"], "usage: course COMMAND"),
        (["run", ""], "begins no lesson; there are: 00, 01, 02"),
        (["run", "00", "98"], "'98' begins no lesson"),
        (["budget", "nan"], "a number from 0"),
        (["budget", "-3"], "a number from 0"),
        (["budget", ""], "not a number of device-hours"),
        (["runs", "-n", "0"], "not a whole number from 1"),
    ],
)
def test_the_sentence_says_what_would_work(course, words, part):
    code, said = course(*words)
    assert code == 2
    assert part in said


RECORD = {"token": "t", "name": "n", "key": "k", "job_id": 7, "folder": "n-7",
          "final": {"state": "COMPLETED"}}  # fmt: skip


@pytest.mark.parametrize("name", ["site.toml", ".course/jobs/a.json", "runs/n-7/out.log"])
@pytest.mark.timeout(60)
def test_a_pipe_in_place_of_a_file_is_not_waited_for(course, tmp_path, name):
    workspace = tmp_path / "workspace"
    for folder in (".course/jobs", "runs/n-7"):
        (workspace / folder).mkdir(parents=True)
    (workspace / ".course/jobs/n.json").write_text(json.dumps(RECORD))
    (workspace / name).unlink(missing_ok=True)
    os.mkfifo(workspace / name)
    for line in ("runs", "log n", "log -n 3 n", "render n"):
        course(*line.split(), may_say_nothing=True)


def test_an_account_without_a_name_has_its_number(monkeypatch):
    for name in ("LOGNAME", "USER"):
        monkeypatch.setenv(name, "somebody-else")
    assert workspace.account() == pwd.getpwuid(os.getuid()).pw_name
    monkeypatch.setattr(os, "getuid", lambda: 59001)
    assert workspace.account() == "59001"


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A line of bash in which `$course` is the command."""
    course = f"{sys.executable} -m course_lib.cli"
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False,
        env=os.environ | {"course": course} | environment, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("($course --help || [ $? = 141 ]) | true", 0),
        ("$course --help >&-", 0),
        ("$course nothing 2>&-", 2),
        ("($course site list || [ $? = 141 ]) | head -1", 0),
    ],
)
def test_streams_that_take_nothing_cost_no_traceback(line, code, tmp_path):
    done = shell(line, XDG_STATE_HOME=str(tmp_path), COURSE_WORKSPACE=str(tmp_path))
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_stream_that_is_not_utf_8_gets_what_it_can_take(tmp_path):
    line = "$course progress --help; $course é; $course site list"
    done = shell(line, PYTHONIOENCODING="ascii", PYTHONUTF8="0", COURSE_WORKSPACE=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr


def test_ctrl_c_is_130_and_says_nothing(monkeypatch, capsys):
    def interrupt(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "call", interrupt)
    assert cli.main(["runs"]) == 130
    assert capsys.readouterr().err == ""
