"""Whatever is typed after `course`, the answer is a sentence: never a traceback, on the terminal or
in the folder where those of unexpected errors go."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from course_lib import cli
from course_lib.lab import plain_files
from course_lib.lab.commands import jobs, mishaps
from course_lib.teach import run as course_run

WORDS = (
    "", " ", "nan", "inf", "-1", "0", "1e999", "0x10", "٣", "²", "9" * 5000, "a" * 300, "é" * 300,
    "../..", "/dev/null/x", ".", "/", "\udcff", "two\nlines", "$(touch pwned)", "'", '"', "-", "--",
    "--no-such", "=", "x=", "=1", "None", "...", "[" * 3000, "{run}", "{0}", "%s", "\x1b[2J", "🙂",
)  # fmt: skip
LINES = (
    "{}", "runs {}", "runs -n {}", "queue {}", "log {}", "log -n {}", "cancel {}", "clean {}",
    "clean --only {}", "budget {}", "site {}", "site show {}", "site use {}", "site check {}",
    "render {}", "render gpt {}", "render gpt x {}", "render gpt x nodes={}",
    "render gpt x heads={}", "render gpt x learning_rate={}", "render shell x commands={}",
    "render links x sizes={}", "render --site {} shell x commands=true", "submit {}",
    "doctor {}", "doctor --site {}", "shell {}", "shell --site {}", "build {}", "run 00 x{}",
    "run nothing --workspace {}", "lessons {}",
    "progress {}", "progress --workspace {}", "progress --learner {}", "bench {}", "bench --tag {}",
    "bench --tag 13 --tensor {}", "bench --tag 13 --machine {}", "bench --script --site {}",
)  # fmt: skip
FILES = {
    "recipe.toml": (
        b"", b"\x00\xff\x80", b"name = 3", b"name = 'x'", b"a = " + b"[" * 4000, b"name =",
        b"name = 'x'\nnodes = 'two'", b"name = 'x'\ncommands = 'true'\nenvironment = 3",
        b"name = 'x'\narguments = 'a'", b"name = 'x'\ncommands = [3]", b"\xef\xbb\xbf" * 3,
        b"[model]\nlayers = 'many'", b"name = 1979-05-27",
    ),
    "own.sbatch": (b"", b"\xff\xfe", b"\x00", b"no interpreter\n"),
}  # fmt: skip
SITES = (
    b"", b"\xff", b"name = 3", b"environment = 3", b"commands = [3]", b"a = " + b"[" * 4000,
    b"name = 'x'\nnodes = 'two'", b"[name]", b"name = 'x'\nbox = 'yes'", b"name = 'x'\nskip = 3",
)  # fmt: skip


@pytest.fixture
def course(tmp_path, monkeypatch, capsys, fake_slurm):
    """`course("queue")` → exit code and all that was said; fails on a traceback, seen or kept."""
    fake_slurm()
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "site.toml").write_text('name = "slurm"\nbox = false\n')
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("COURSE_WORKSPACE", str(workspace))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
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
        kept = list((tmp_path / "state").rglob("*.txt"))
        assert not kept, f"{words}: {kept[0].read_text()}"
        return code, said

    return call


def _must_not_happen(*_: object) -> None:
    raise AssertionError("a lesson was run for a bad input")


@pytest.mark.parametrize("line", LINES)
def test_any_word_anywhere_is_answered_in_words(course, line):
    for word in WORDS:
        course(*(part.replace("{}", word) for part in line.split()))


def test_so_many_bad_inputs_are_tried():
    assert len(LINES) * len(WORDS) >= 1000


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_recipe_is_refused_in_words(course, tmp_path, name):
    for content in FILES[name]:
        (tmp_path / name).write_bytes(content)
        code, said = course("render", str(tmp_path / name))
        assert code == 2 or name == "own.sbatch", (content, said)


@pytest.mark.parametrize("command", ["queue", "site check", "budget", "site list"])
def test_a_site_file_that_is_none_is_refused_in_words(course, tmp_path, command):
    for content in SITES:
        (tmp_path / "workspace" / "site.toml").write_bytes(content)
        course(*command.split())


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["que"], "did you mean `course queue`?"),
        (["sumbit"], "did you mean `course submit`?"),
        (["QUEUE"], "did you mean `course queue`?"),
        (["no-such-thing-at-all"], "usage: course COMMAND"),
        (["run", ""], "begins no lesson; there are: 00, 01, 02"),
        (["run", "00", "98"], "'98' begins no lesson"),
        (["budget", "nan"], "a number from 0"),
        (["budget", "inf"], "a number from 0"),
        (["budget", "-3"], "a number from 0"),
        (["budget", ""], "no number of device-hours"),
        (["runs", "-n", "0"], "no whole number from 1"),
        (["log"], "no runs yet"),
    ],
)
def test_the_sentence_says_what_would_work(course, words, part):
    code, said = course(*words)
    assert code == 2
    assert part in said


@pytest.mark.parametrize("error", [ValueError("odd\nnews"), OSError(28, "No space left", "/x")])
def test_an_error_that_nobody_expected_is_one_line_and_a_file(tmp_path, monkeypatch, capsys, error):
    def fail(_: list[str]) -> int:
        raise error

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(cli, "call", lambda _, words: fail(words))
    assert cli.main(["queue"]) == 2
    said = capsys.readouterr().err
    (kept,) = (tmp_path / "course" / "tracebacks").iterdir()
    assert said.count("\n") == 1
    assert str(kept) in said
    assert "Traceback (most recent call last)" in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600


def test_only_the_newest_tracebacks_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "course" / "tracebacks"
    folder.mkdir(parents=True)
    for number in range(30):
        (folder / f"2001{number:02}.txt").touch()
    newest = mishaps.keep(ValueError("x"))
    assert len(list(folder.iterdir())) == mishaps.TRACEBACKS_KEPT
    assert newest.exists()
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    assert mishaps.keep(ValueError("x")) is None


ENDLESS = {
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": lambda path: path.mkdir(parents=True),
}
MAY_BE_REPLACED = (
    "site.toml", ".course/lock", ".course/budget.toml", ".course/jobs/a.json",
    ".course/jobs/a.intent.json", "runs/n-7/out.log", "runs/n-7/recipe.toml", "runs/n-7/exit_code",
    "runs/n-7/job.sbatch",
)  # fmt: skip
RECORD = {"token": "t", "name": "n", "key": "k", "job_id": 7, "folder": "n-7",
          "final": {"state": "COMPLETED"}}  # fmt: skip


@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("name", MAY_BE_REPLACED)
@pytest.mark.timeout(60)
def test_what_never_begins_or_ends_in_place_of_a_file_is_not_waited_for(
    course, tmp_path, monkeypatch, kind, name
):
    workspace = tmp_path / "workspace"
    for folder in (".course/jobs", "runs/n-7"):
        (workspace / folder).mkdir(parents=True)
    (workspace / ".course/jobs/n.json").write_text(json.dumps(RECORD))
    (workspace / name).unlink(missing_ok=True)
    ENDLESS[kind](workspace / name)
    monkeypatch.setattr(mishaps, "keep", lambda _: None)  # an error of the system may be kept
    for line in (
        "runs",
        "log n",
        "log -n 3 n",
        "budget",
        "render n",
        "submit shell a commands=true",
    ):
        course(*line.split(), may_say_nothing=True)


@pytest.mark.parametrize(
    ("variable", "value", "part"),
    [
        ("COURSE_WORKSPACE", "~nobody-of-that-name/x", "there is no such home"),
        ("COURSE_WORKSPACE", "/tmp/\udcff", "it is not UTF-8"),
    ],
)
def test_a_workspace_that_is_none_is_told_by_name(course, monkeypatch, variable, value, part):
    monkeypatch.setenv(variable, value)
    for line in ("runs", "budget", "site check", "progress", "submit shell a commands=true"):
        code, said = course(*line.split())
        assert (code, part in said) == (2, True), said


def test_an_account_without_a_name_or_home_has_its_number(monkeypatch):
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 59001)
    assert plain_files.account() == "59001"
    assert plain_files.home() == "~"


@pytest.mark.parametrize("when", ["1e300", "-5", "1e11"])
def test_a_record_of_an_impossible_time_is_passed_over(course, tmp_path, when):
    records = tmp_path / "workspace" / ".course" / "jobs"
    records.mkdir(parents=True)
    text = json.dumps(RECORD)[:-1] + f', "submitted_unix_s": {when}}}'
    (records / "n.json").write_text(text)
    assert "no runs yet" in course("runs")[1]


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
        ("$course --help | true", 0),
        ("$course --help | head -1", 0),
        ("$course run --help | true", 0),
        ("$course --help >/dev/full", 2),
        ("$course --help >&-", 0),
        ("$course nothing 2>&-", 2),
        ("$course site list | head -1", 0),
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
    assert cli.main(["queue"]) == 130
    assert capsys.readouterr().err == ""
