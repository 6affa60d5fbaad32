"""A learner's own program belongs to its run: it is copied, compared, and never run twice."""

from __future__ import annotations

import pytest

from course_lib.lab.errors import RecipeError
from course_lib.lab.job.recipes import program, trial
from course_lib.lab.job.unfinished import Unfinished

from .conftest import PATIENCE_S

HELLO = "import os, helper\nprint('rank', os.environ['RANK'], 'of', helper.NAME, flush=True)\n"


@pytest.fixture
def hello(lab):
    """A program of two files."""
    (lab.work / "hello.py").write_text(HELLO)
    (lab.work / "helper.py").write_text("NAME = 'first'\n")
    return program.recipe("hello", "work/hello.py")


def test_a_path_from_the_workspace_is_taken_along_and_another_runs_where_it_lies():
    own = program.recipe("a", "work/x.py", sync="last")
    assert own.files == ("work/x.py",)
    assert own.arguments == ("{run}/program/x.py", "--sync", "last")
    for path in ("accumulate_ddp.py", "/opt/megatron/pretrain_gpt.py"):
        assert program.recipe("a", path).files == ()
        assert program.recipe("a", path).program == path


def test_the_script_shows_that_the_copy_runs(lab, hello):
    assert '"$COURSE_RUN_DIR"/program/hello.py' in lab.script(hello).text


def test_unchanged_it_runs_once_and_after_an_edit_of_any_of_its_files_once_more(lab, hello):
    first = lab.submit(hello)
    assert first.wait(PATIENCE_S) == "COMPLETED"
    assert "rank 0 of first" in first.text
    assert lab.submit(hello).job_id == first.job_id
    (lab.work / "helper.py").write_text("NAME = 'second'\n")
    second = lab.submit(hello)
    assert second.wait(PATIENCE_S) == "COMPLETED"
    assert "rank 0 of second" in second.text
    kept = first.paths.program
    assert {path.name: path.read_text() for path in kept.glob("*.py")} == {
        "hello.py": HELLO, "helper.py": "NAME = 'first'\n",
    }  # fmt: skip


def test_bytes_that_are_no_text_come_back_as_they_were(lab, hello):
    content = b"# -*- coding: latin-1 -*-\nprint('\xe9')\n\x00"
    (lab.work / "hello.py").write_bytes(content)
    assert lab.submit(hello).paths.program.joinpath("hello.py").read_bytes() == content


def test_a_submission_that_was_killed_half_way_still_takes_the_files_along(lab, hello, monkeypatch):
    from course_lib.lab.queue import submission

    class KilledError(BaseException):
        pass

    def killed(*_):
        raise KilledError

    with monkeypatch.context() as broken:
        broken.setattr(submission, "_finish", killed)
        with pytest.raises(KilledError):
            lab.submit(hello)
    (lab.work / "helper.py").unlink()
    submission.repair(lab.jobs)
    assert lab.run("hello").paths.program.joinpath("helper.py").is_file()


def test_a_file_that_is_not_there_is_told_with_the_cell_that_writes_it(lab):
    with pytest.raises(RecipeError, match="%%writefile"):
        lab.submit(program.recipe("x", "work/none.py"))


def test_a_file_with_gaps_names_its_lines_and_runs_nothing(lab, capsys):
    text = "def f(x):\n    ...\n\ny = ...  # a number\nz: int = ...\n    ...  # two lines\n"
    text += "print('...')\nt[...] = 1\n"
    (lab.work / "gaps.py").write_text(text)
    run = lab.submit(trial.recipe("x", "work/gaps.py", "ring"))
    assert isinstance(run, Unfinished)
    assert [line.partition(" of")[0] for line in run.missing] == ["line 4", "line 5", "line 6"]
    assert "Nothing is submitted" in capsys.readouterr().out


def test_code_printing_without_end_ends_the_job_and_leaves_a_small_log(lab):
    (lab.work / "loud.py").write_text("while True:\n    print('x' * 10_000)\n")
    run = lab.submit(program.recipe("loud", "work/loud.py", gpus_per_node=2))
    assert run.wait(PATIENCE_S) == "FAILED"
    assert "printed more than 4 MiB" in run.text
    assert run.log_file.stat().st_size < 20 << 20


@pytest.mark.many(2)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def f(:\n", "SyntaxError"),
        ("import no_such_module_here\n", "ModuleNotFoundError"),
        ("x = 1 / 0\n", "line 1, in <module>"),
        ("import sys\nsys.exit('why')\n", "why"),
    ],
)
def test_an_error_is_told_with_the_learners_lines_alone(lab, text, words):
    (lab.work / "bad.py").write_text(text)
    run = lab.submit(program.recipe("bad", "work/bad.py"))
    assert run.wait(PATIENCE_S) == "FAILED"
    assert words in run.text
    assert "runpy" not in run.text.partition("torchrun")[0]
