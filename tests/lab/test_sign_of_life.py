"""While a learner waits for a run, a line changes in place."""

from __future__ import annotations

import io
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from course_lib.lab.job.recipes import shell
from course_lib.lab.queue.slurm import Status
from course_lib.lab.watching import watch
from course_lib.lab.watching.progress import Clock, Progress, duration, last_words

from .conftest import PATIENCE_S
from .test_watch import LINE

TALKS = "echo first; sleep 1; printf 'busy \\033[1mstill\\033[0m\\n'; sleep 6"
TRAINS = f"echo '{LINE.format(i=2)}'; sleep 5"


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def live(monkeypatch):
    monkeypatch.setenv("COURSE_PLAIN", "0")


def test_a_terminal_sees_one_line_that_says_what_the_job_is_at(lab, live, monkeypatch):
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    lab.submit(shell.recipe("talks", TALKS)).wait(PATIENCE_S)
    *lines, last = screen.getvalue().split(watch.CLEAR_LINE)[1:]
    assert any(line.startswith("talks: running, busy still (") for line in lines)
    assert all(line.endswith(" s)") for line in lines)
    assert last == "talks: completed\n"
    assert screen.getvalue().count("\n") == 1


def test_a_training_run_says_its_iteration(lab, live, monkeypatch):
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    lab.submit(shell.recipe("trains", TRAINS)).require(PATIENCE_S)
    assert "trains: running, iteration 2 of 3 (" in screen.getvalue()
    assert "left)" in screen.getvalue()


def test_a_waiting_job_prints_its_reason(lab, live, monkeypatch):
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    first = lab.submit(shell.recipe("first", "sleep 4", nodes=2, gpus_per_node=2))
    lab.submit(shell.recipe("second", "true", nodes=2, gpus_per_node=2)).wait(PATIENCE_S)
    assert first.ended
    assert "second: waiting in the queue: nodes or devices" in screen.getvalue()


def test_a_file_gets_a_line_now_and_then_and_not_one_a_second(lab, live, capsys):
    lab.submit(shell.recipe("talks", TALKS)).wait(PATIENCE_S)
    found = capsys.readouterr()
    assert found.out == ""
    begun, ended = found.err.splitlines()
    assert begun.startswith("talks: ")
    assert ended == "talks: completed"


def test_a_short_wait_shows_nothing_and_neither_does_a_test(lab, live, monkeypatch, capsys):
    monkeypatch.setattr(watch, "PATIENCE_S", PATIENCE_S)  # on a busy machine no job is short
    lab.submit(shell.recipe("short", "true")).wait(PATIENCE_S)
    monkeypatch.setenv("COURSE_PLAIN", "1")
    lab.submit(shell.recipe("talks", TALKS)).require(PATIENCE_S)
    found = capsys.readouterr()
    assert (found.out, found.err) == ("", "")


class Recorder(NotebookClient):
    """Messages to a front end, in their order."""

    def process_message(self, msg, cell, cell_index):
        shown = msg["content"].get("data", {}).get("text/plain")
        if msg["msg_type"] in ("display_data", "update_display_data"):
            vars(self).setdefault("told", []).append((msg["msg_type"], shown))
        return super().process_message(msg, cell, cell_index)


def test_a_notebook_shows_one_output_that_is_replaced(cluster, live, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    cells = [
        f"from course_lib import Lab, shell\nlab = Lab(site={cluster!r}, quiet=True)",
        f"run = lab.submit(shell.recipe('talks', {TALKS!r}))\nrun.require()\nprint('done')",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = Recorder(notebook, timeout=120, kernel_name="python3")
    client.execute()
    line, printed = notebook.cells[1].outputs
    assert line["data"] == {"text/plain": "talks: completed"}
    assert printed["text"] == "done\n"
    (first, _), *updates = client.told
    assert first == "display_data"
    assert any("talks: running, busy still (" in text for _, text in updates)
    assert {kind for kind, _ in updates} == {"update_display_data"}


class Waited:
    """Stand-in for a run, with its name, folder and state."""

    name, submitted_unix_s = "dp4", 0.0

    def __init__(self, folder: Path):
        self.log_file = folder / "out.log"


def test_what_is_left_follows_from_the_last_iterations(monkeypatch, tmp_path):
    now_s = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    clock = Clock(Waited(tmp_path))
    at = Progress(iteration=4, total=10, elapsed_ms=5000.0)
    status = Status(state="RUNNING", elapsed_s=20.0)
    assert clock.words(status, at) == "20 s, about 30 s left"
    now_s[0] += 3
    assert clock.words(Status(state="RUNNING", elapsed_s=22.0), Progress()) == "23 s"
    assert Progress(iteration=4, total=10).left_s is None
    assert clock.words(Status(state="COMPLETED", elapsed_s=25.0), at) == "25 s"


def test_the_panel_says_from_the_start_how_long_and_what_for(lab, monkeypatch):
    from course_lib.lab.watching.panel import Panel

    first = lab.submit(
        shell.recipe("first", "echo hello '<b>'; sleep 60", nodes=2, gpus_per_node=2)
    )
    second = lab.submit(shell.recipe("second", "true", nodes=2, gpus_per_node=2))
    waiting = Panel(second)
    waiting.show(second.status, Progress())
    assert "waiting in the queue: " in waiting._head.value
    assert "in the queue<br><b>" in waiting._numbers.value
    while not first.text:
        first.pause(0.1)
    running = Panel(first)
    running.show(first.look(0.0), Progress())
    assert "elapsed<br><b>" in running._numbers.value
    assert "hello &lt;b&gt;" in running._numbers.value
    running.show(first.status, Progress(iteration=1, total=4, elapsed_ms=2000.0))
    assert "left, about<br><b>6 s</b>" in running._numbers.value
    lab.cancel([second, first])
    second.wait(PATIENCE_S)
    first.wait(PATIENCE_S)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "0 s"),
        (59.9, "59 s"),
        (65, "1 min 05 s"),
        (3600, "1 h 00 min"),
        (93784, "26 h 03 min"),
    ],
)
def test_a_duration_is_told_as_exactly_as_one_wants_it(seconds, words):
    assert duration(seconds) == words


def test_the_last_words_of_a_log_are_one_short_line_of_text(tmp_path):
    log = tmp_path / "out.log"
    assert last_words(log) == ""
    log.write_bytes(b"a\n" * 9000 + b" 10%\r\x1b[31m 20%\x1b[0m\tnow\xff\n\n \n")
    assert last_words(log) == "20% now\N{REPLACEMENT CHARACTER}"
    log.write_text("x" * 300)
    assert last_words(log) == "x" * 79 + "…"
