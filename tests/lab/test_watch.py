"""Watching is live for a person, and prints one plain line in a test."""

from __future__ import annotations

import nbformat
import pytest
from nbclient import NotebookClient

from course_lib.lab.errors import StillRunningError
from course_lib.lab.job.recipes import shell
from course_lib.lab.lab import Lab
from course_lib.lab.watching.progress import Progress, details

from .conftest import PATIENCE_S

LINE = (
    " iteration {i:8d}/ 3 | consumed samples: 8 | elapsed time per iteration (ms): 250.0 | "
    "learning rate: 1.0E-03 | global batch size: 8 | lm loss: 7.5E+00 | loss scale: 1.0 | "
    "number of skipped iterations: 0 | number of nan iterations: 0 |"
)
TRAIN = "\n".join(f"echo '{LINE.format(i=i)}'" for i in (1, 2, 3))


def test_a_test_sees_one_line_that_is_the_same_everywhere(lab, capsys):
    lab.submit(shell.recipe("train", TRAIN)).watch(PATIENCE_S)
    assert capsys.readouterr().out == "train: completed, 3 of 3 iterations\n"


def test_a_failed_run_ends_in_a_line_too_and_raises_nothing(lab, capsys):
    run = lab.submit(shell.recipe("bad", "exit 2"))
    run.watch(PATIENCE_S)
    assert capsys.readouterr().out.startswith("bad: failed: its script ended with exit code 2")


def test_watching_what_has_ended_shows_its_end(done, capsys):
    done.watch()
    done.watch()
    assert capsys.readouterr().out == "done: completed\n" * 2


def test_a_file_gets_the_first_line_and_the_last(lab, capsys, monkeypatch):
    monkeypatch.setenv("COURSE_PLAIN", "0")
    run = lab.submit(shell.recipe("train", f"{TRAIN}\nsleep 1.5"))
    run.watch(PATIENCE_S)
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("train: ")
    assert last == "train: completed, 3 of 3 iterations"


def test_watching_for_too_long_leaves_the_job_alone(lab, capsys):
    run = lab.submit(shell.recipe("slow", "sleep 100"))
    with pytest.raises(StillRunningError):
        run.watch(0.5)
    assert "slow: still" in capsys.readouterr().out
    run.cancel()
    run.wait(PATIENCE_S)


def test_an_interrupt_ends_the_watching_and_not_the_job(lab, capsys, monkeypatch):
    run = lab.submit(shell.recipe("slow", "sleep 100"))

    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "pause", interrupt)
    run.watch()
    assert "no longer watched, but the job continues" in capsys.readouterr().out
    assert not run.ended
    run.cancel()


def test_an_interrupted_cell_says_that_the_job_continues(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    cells = [
        f"from course_lib import Lab, shell\nlab = Lab(site={cluster!r}, quiet=True)",
        "run = lab.submit(shell.recipe('slow', 'sleep 100'))",
        "import _thread, threading\n"
        "threading.Timer(1, _thread.interrupt_main).start()\n"
        "run.require()",
        "ended = run.ended\nrun.cancel()\nended",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=60, kernel_name="python3", allow_errors=True).execute()
    *_, error = notebook.cells[2].outputs
    assert "no longer watched, but the job continues" in error["traceback"][-1]
    assert "course_lib/" not in "\n".join(error["traceback"])
    assert notebook.cells[3].outputs[0]["data"]["text/plain"] == "False"


def test_a_notebook_ends_with_plain_text_in_place_of_the_panel(cluster, tmp_path, monkeypatch):
    """There is no front end here, so no program shows the widgets, and the cell still works."""
    monkeypatch.setenv("COURSE_PLAIN", "0")
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    cells = [
        f"from course_lib import Lab, shell\nlab = Lab(site={cluster!r}, quiet=True)",
        f"run = lab.submit(shell.recipe('train', {TRAIN!r}))",
        "run.watch(60)",
        "run.watch()\nlab.script(run.recipe)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    assert notebook.cells[1].outputs == []
    for number in (2, 3):
        shown = notebook.cells[number].outputs[0]
        assert shown["output_type"] == "display_data"
        assert shown["data"] == {"text/plain": "train: completed, 3 of 3 iterations"}
    script = notebook.cells[3].outputs[1]["data"]
    assert "#SBATCH --job-name=train" in script["text/plain"]
    assert "<pre" in script["text/html"]


def test_the_panel_s_button_cancels_and_shows_what_goes_wrong(cluster, tmp_path):
    from course_lib.lab.watching.panel import Panel

    lab = Lab(tmp_path, site=cluster, quiet=True)
    run = lab.submit(shell.recipe("slow", "sleep 100"))
    panel = Panel(run)
    panel.show(run.status, Progress(iteration=1, total=4, loss=2.5))
    assert panel._bar.value == 0.25
    assert "<b>2.5000</b>" in panel._numbers.value
    panel._button.click()
    assert panel._button.description == "Cancelling"
    assert run.wait(PATIENCE_S) == "CANCELLED"
    panel.close("slow: cancelled")


def test_numbers_that_are_not_known_are_not_shown():
    assert details(Progress()) == []
    assert details(Progress(loss=2.0, iteration=3)) == [("iteration", "3"), ("loss", "2.0000")]
