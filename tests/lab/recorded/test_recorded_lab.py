"""A lab of recorded runs needs no Slurm and no box, and every run looks as if it had just ended."""

from __future__ import annotations

import subprocess

import nbformat
import pytest

from course_lib.lab.errors import LabError
from course_lib.lab.job.recipes import gpt, program
from course_lib.lab.lab import Lab
from course_lib.lab.lab import _same_recipe as same_recipe
from course_lib.lab.recorded import recording_index
from course_lib.lab.recorded.printed import BIN
from course_lib.lab.recorded.recording_index import NoRecordingError
from course_lib.lab.watching.panel import Panel
from course_lib.lab.watching.progress import Progress
from course_lib.lab.workspace import write_atomically
from course_lib.publish.book import origin
from course_lib.publish.run import run_lesson


@pytest.fixture
def no_cluster(tmp_path, monkeypatch):
    """Take away Slurm's commands, the folder without which the box cannot start, and all recordings
    except a test's own."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("COURSE_BOX_HOME", "/proc/no-box")
    monkeypatch.delenv("COURSE_RECORDINGS", raising=False)
    monkeypatch.setattr(recording_index, "SHIPPED", tmp_path / "elsewhere")


@pytest.fixture
def here(made, tmp_path, no_cluster):
    """Another workspace, which has received the recording."""
    folder = tmp_path / "here"
    (folder / "recordings").mkdir(parents=True)
    made.pack().rename(folder / "recordings" / "part.runs")
    write_atomically(folder / "work" / "mine.py", "print('hello')\n")
    return folder


@pytest.fixture
def lab(here):
    return Lab(here, site="recorded")


def test_the_same_recipe_gets_the_recorded_run_with_its_banner(lab, made, capsys):
    run = lab.submit(made.recipes["dp4"])
    said = capsys.readouterr().out
    assert "dp4: job 17: recorded on" in said
    assert "core" in said
    assert (run.state, run.exit_code, run.job_id) == ("COMPLETED", 0, 17)
    assert "recorded on" in repr(run)
    assert len(run.log.iterations) == 20
    assert run.wait() == "COMPLETED"
    assert lab.run("dp4").folder == run.folder
    assert list(lab.runs()["name"]) == ["dp4"]
    assert lab.budget.used == 0, "somebody else's device-hours"
    assert lab.device_pace == 3.0


def test_a_recipe_is_found_with_a_different_secret(made, here):
    made.recipes["dp4"] = made.recipes["dp4"].but(environment={"HF_TOKEN": "hf_abcdef123"})
    made.add("dp4", 19, LOG)
    made.pack().rename(here / "recordings" / "part.runs")
    mine = made.recipes["dp4"].but(environment={"HF_TOKEN": "hf_of_somebody_else"})
    assert Lab(here, site="recorded").submit(mine).job_id == 19


def test_a_second_call_returns_the_same_run(lab, made, capsys):
    first = lab.submit(made.recipes["dp4"])
    again = lab.submit(made.recipes["dp4"])
    assert first.folder == again.folder
    assert "has the same recipe" in capsys.readouterr().out


def test_a_reader_of_korean_reads_in_korean_where_a_run_was_recorded(
    lab, made, capsys, monkeypatch
):
    monkeypatch.setenv("COURSE_LANGUAGE", "ko")
    lab.submit(made.recipes["dp4"])
    said = capsys.readouterr().out
    assert "에 기록함" in said
    assert "recorded on" not in said


def test_another_recipe_is_refused_and_told_what_there_is(lab):
    other = gpt.recipe("dp4", nodes=2, gpus_per_node=2, iterations=40, profile=True)
    with pytest.raises(NoRecordingError) as refused:
        lab.submit(other)
    words = str(refused.value)
    assert "dp4 was recorded with different values" in words
    assert "Recorded are: dp4, mine" in words


def test_what_a_learner_foresees_of_a_run_makes_it_no_other(made, here):
    foresaw = made.recipes["dp4"].but(environment={"COURSE_CHALLENGE": "9.0 s, foreseen in there"})
    made.recipes["dp4"] = foresaw
    made.add("dp4", 19, LOG)
    made.pack().rename(here / "recordings" / "part.runs")
    mine = foresaw.but(environment={"COURSE_CHALLENGE": "20.0 s, foreseen in here"})
    assert Lab(here, site="recorded").submit(mine).job_id == 19


def test_a_program_with_another_text_is_not_taken_for_the_recorded_one(lab, here):
    mine = program.recipe("mine", "work/mine.py")
    assert lab.submit(mine).text == "hello from ~/course/runs/mine.txt\n"
    write_atomically(here / "work" / "mine.py", "print('other')\n")
    with pytest.raises(NoRecordingError, match=r"solution's text of mine\.py"):
        lab.submit(mine)


LOG = "a line\n"
LESSON = """
from course_lib import Lab, gpt
lab = Lab()
run = lab.submit(gpt.recipe("dp4", nodes=2, gpus_per_node=2, iterations=20, profile=True))
run.watch()
assert len(run.log.iterations) == 20 and run.ok
"""


def test_a_lesson_runs_on_recorded_runs_alone_and_says_whose_they_are(here, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_SITE", "recorded")
    monkeypatch.delenv("COURSE_PLAIN")
    path = tmp_path / "77_test.ipynb"
    cells = [nbformat.v4.new_code_cell(LESSON, id="all")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    result = run_lesson(path, here)
    assert (result.failure, result.jobs) == ("", 1)
    told = origin.read(nbformat.read(here / ".course" / "executed" / path.name, as_version=4))
    assert told.words().startswith("1 job, recorded on ")


def test_commands_in_cells_print_what_they_printed_when_the_runs_were_recorded(
    here, made, tmp_path, monkeypatch
):
    monkeypatch.setenv("COURSE_SITE", "recorded")
    file = here / "recordings" / "part.runs"
    manifest, files = made.parts(file)
    manifest["printed"] = {"sinfo -p {queue}": "\x1b[2Jnode1 idle\n"}
    made.forged(file, manifest, files)
    lines = ["from course_lib import Lab\nlab, queue = Lab(), 'main'", "Lab()\n!sinfo -p {queue}",
             "!squeue --me", "!echo mine"]  # fmt: skip
    cells = [nbformat.v4.new_code_cell(line, id=f"c{n}") for n, line in enumerate(lines)]
    path = tmp_path / "77_test.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    assert run_lesson(path, here).failure == ""
    made = nbformat.read(here / ".course" / "executed" / path.name, as_version=4)
    printed = ["".join(one.text for one in cell.outputs if "text" in one) for cell in made.cells]
    assert printed[1].endswith("[2Jnode1 idle\n(recorded with the runs)\n"), "no escapes"
    assert "\x1b" not in printed[1]
    assert "nothing runs here" in printed[2]
    assert printed[3].strip() == "mine"


def test_a_site_that_was_changed_is_another_run(lab, made):
    with pytest.raises(NoRecordingError):
        lab.but(link_gbit=0.2).submit(made.recipes["dp4"])


def test_the_same_job_on_another_cluster_is_shown_beside_ones_own(lab, here, made):
    assert lab.elsewhere(made.recipes["dp4"]) == [], "it was made on such a site as this"
    file = here / "recordings" / "part.runs"
    manifest, files = made.parts(file)
    for run in manifest["runs"]:
        run["site"] = {"name": "h200", "title": "eight H200", "kind": "cuda"}
    made.forged(file.with_name("h200.runs"), manifest, files)
    for _ in range(2):
        [other] = lab.elsewhere(made.recipes["dp4"])
        assert other.ok
        assert len(other.log.iterations) == 20
        assert other.origin.endswith("on eight H200"), "not the machine where it was packed"
        assert other.folder.parent.name == "h200"
    assert lab.submit(made.recipes["dp4"]).folder.parent == here / "runs"


def test_cancel_and_clean_touch_what_was_handed_out_alone(lab, made, capsys):
    run = lab.submit(made.recipes["dp4"])
    run.cancel()
    assert "has ended already" in capsys.readouterr().out
    lab.clean("dp4", yes=True)
    assert run.deleted
    assert lab.submit(made.recipes["dp4"]).log_file.exists(), "it is handed out once more"


def test_commands_of_slurm_say_that_nothing_runs_here(lab):
    done = subprocess.run(["squeue", "--me"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "squeue: nothing runs here" in done.stderr
    assert (BIN / "sbatch").exists()
    with pytest.raises(LabError, match="nothing runs here"):
        lab.jobs.slurm.call("sinfo")


def test_a_run_of_ones_own_does_not_become_a_recorded_one_nor_the_other_way_round(lab, made, here):
    lab.submit(made.recipes["dp4"])
    real = Lab(here, site="box", quiet=True)
    assert same_recipe(real.jobs, real_submission(real, made)) is None


def real_submission(lab, made):
    from course_lib.lab.queue.submission import Submission

    return Submission.of(made.recipes["dp4"], lab.site)


def test_without_recordings_it_says_where_they_belong(tmp_path, no_cluster):
    with pytest.raises(NoRecordingError, match="there are no recorded runs in"):
        Lab(tmp_path, site="recorded")


def test_the_environment_chooses_it_as_make_lab_does(here, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_SITE", "recorded")
    assert Lab(here).site.recorded
    assert "nothing runs here" in capsys.readouterr().out
    monkeypatch.setenv("COURSE_SITE", "")
    assert not Lab(here, quiet=True).site.recorded


def test_a_recording_that_is_damaged_is_named_and_the_others_work(lab, here, made):
    file = here / "recordings" / "part.runs"
    (here / "recordings" / "bad.runs").write_bytes(file.read_bytes()[:300])
    assert lab.submit(made.recipes["dp4"]).ok
    with pytest.raises(NoRecordingError, match=r"bad\.runs cannot be used as a recording"):
        lab.submit(made.recipes["dp4"].but(name="unheard"))


def test_a_run_that_turns_out_damaged_leaves_nothing_behind(lab, here, made):
    file = here / "recordings" / "part.runs"
    manifest, files = made.parts(file)
    manifest["runs"][0]["files"][-1][2] = "0" * 64
    made.forged(file, manifest, files)
    with pytest.raises(LabError, match="checksum"):
        lab.submit(made.recipes["dp4"])
    assert list((here / "runs").iterdir()) == []
    assert list(lab.runs()["name"]) == []


def test_a_banner_has_no_escapes_and_an_end(lab, here, made, capsys):
    file = here / "recordings" / "part.runs"
    manifest, files = made.parts(file)
    manifest["machine"] = "a \x1b[31mred\x1b[0m <script>alert(1)</script>" + "x" * 500
    manifest["runs"][0]["status"]["nodes"] = "<script>alert(2)</script>"
    made.forged(file, manifest, files)
    run = lab.submit(made.recipes["dp4"])
    said = capsys.readouterr().out
    assert "\x1b" not in said
    panel = Panel(run)
    panel.show(run.status, Progress())
    assert "&lt;script&gt;" in panel._head.value
    assert "<script>" not in panel._head.value
    assert len(run.origin) <= 200
