"""Runs: their state, their end, and their files."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from course_lib.lab.errors import LabError, RunFailedError, StillRunningError, UnknownRunError
from course_lib.lab.job.recipes import shell
from course_lib.lab.lab import Lab
from course_lib.lab.queue.slurm import UNIT
from course_lib.lab.runs.run import Run

from .conftest import PATIENCE_S


def row(text):
    return text.replace(" ", UNIT)


def test_a_run_goes_from_waiting_to_its_end(lab):
    run = lab.submit(shell.recipe("steps", 'echo begun; read -r < "$COURSE_RUN_DIR/go" || true'))
    assert not run.ended or run.ok
    assert run.wait(PATIENCE_S) == "COMPLETED"
    assert run.ok
    assert run.ended
    assert run.reason == "completed"
    assert run.elapsed_s >= 0
    assert run.error == ""
    assert repr(run) == f"<Run steps, job {run.job_id}: completed>"


def test_what_ended_is_known_when_slurm_has_forgotten(lab, done, fake_slurm):
    fake_slurm()
    later = Lab(lab.workspace.folder, site=lab.site.name if lab.site.name == "slurm" else None,
                quiet=True)  # fmt: skip
    assert later.run("done").state == "COMPLETED"


def test_a_failure_ends_with_the_last_lines_of_the_log(lab):
    run = lab.submit(shell.recipe("bad", "seq 1 40; echo cause >&2; exit 7"))
    with pytest.raises(RunFailedError) as error:
        run.require(PATIENCE_S)
    text = str(error.value)
    assert "exit code 7" in text
    assert str(run.log_file) in text
    assert text.endswith("  40\n  cause")
    assert "\n  5\n" not in text
    assert (run.state, run.exit_code) == ("FAILED", 7)


def test_only_a_run_that_ran_out_of_memory_does_not_fit(lab):
    said = "OutOfMemoryError: CPU out of memory. Tried to allocate 2.00 GiB."
    assert lab.submit(shell.recipe("fits", "true")).fits
    assert not lab.submit(shell.recipe("too-large", f"echo '{said}' >&2; exit 1")).fits
    other = lab.submit(shell.recipe("other", "echo 'ValueError: no' >&2; exit 1"))
    with pytest.raises(RunFailedError, match="exit code 1"):
        _ = other.fits
    cancelled = lab.submit(shell.recipe("stopped", "sleep 60"))
    cancelled.cancel()
    with pytest.raises(LabError, match="was cancelled and has no result"):
        _ = cancelled.fits


def test_a_run_whose_log_names_no_cause_raises_its_error(lab):
    named = lab.submit(shell.recipe("named", "echo 'RuntimeError: no' >&2; exit 1"))
    named.wait(PATIENCE_S)
    assert named.cause == named.failure
    silent = lab.submit(shell.recipe("silent", "exit 3"))
    silent.wait(PATIENCE_S)
    with pytest.raises(RunFailedError, match="exit code 3"):
        _ = silent.cause


def test_a_task_s_exit_code_is_the_run_s(lab):
    run = lab.submit(shell.recipe("task", "srun bash -c 'exit $((SLURM_PROCID + 4))'", nodes=2))
    assert run.wait(PATIENCE_S) == "FAILED"
    assert run.exit_code == 5


def test_waiting_for_too_long_leaves_the_job_alone(lab):
    run = lab.submit(shell.recipe("slow", "sleep 100"))
    with pytest.raises(StillRunningError, match=r"run\.cancel\(\) ends it"):
        run.wait(0.5)
    run.cancel()
    assert run.wait(PATIENCE_S) == "CANCELLED"
    assert run.exit_code in (143, None)
    assert run.reason == "cancelled"


def test_a_cancelled_run_says_so_again_and_again(lab, capsys):
    run = lab.submit(shell.recipe("slow", "sleep 100"))
    lab.cancel("slow")
    assert run.wait(PATIENCE_S) == "CANCELLED"
    lab._quiet = False
    lab.cancel([run, run.job_id])
    assert capsys.readouterr().out.count("has ended already") == 2


def test_a_waiting_run_says_why(lab):
    first = lab.submit(shell.recipe("first", "sleep 100", nodes=2, gpus_per_node=2))
    second = lab.submit(shell.recipe("second", "true", nodes=2, gpus_per_node=2))
    assert second.state == "PENDING"
    assert second.reason.startswith("waiting in the queue")
    lab.cancel([second, first])
    assert {first.wait(PATIENCE_S), second.wait(PATIENCE_S)} == {"CANCELLED"}


def test_jobs_that_the_workspace_did_not_submit_are_never_cancelled(lab, tmp_path):
    other = Lab(tmp_path / "other", site=lab.site.name, quiet=True)
    run = other.submit(shell.recipe("theirs", "sleep 100"))
    with pytest.raises(UnknownRunError, match=f"scancel {run.job_id}"):
        lab.cancel(run.job_id)
    assert not run.ended
    other.cancel(run)
    run.wait(PATIENCE_S)


def test_a_run_that_is_not_there_is_answered_with_those_that_are(lab, done):
    with pytest.raises(UnknownRunError, match="this workspace has: done"):
        lab.run("dnoe")


def test_the_table_of_runs_has_one_row_each_the_newest_first(lab, done):
    lab.submit(shell.recipe("next", "true")).wait(PATIENCE_S)
    table = lab.runs()
    assert list(table["name"]) == ["next", "done"]
    assert list(table["state"]) == ["COMPLETED", "COMPLETED"]


@pytest.fixture
def forgotten(tmp_path, fake_slurm):
    """Run that its scheduler no longer knows."""
    fake_slurm()
    lab = Lab(tmp_path / "w", site="slurm", quiet=True)
    return lab.submit(shell.recipe("lost", "true"))


def test_an_unknown_job_has_an_unknown_state(forgotten, monkeypatch):
    monkeypatch.setattr("course_lib.lab.watching.watch.PATIENCE_WITH_UNKNOWN_S", 0.2)
    assert forgotten.wait() == "UNKNOWN"
    assert "Slurm no longer lists the job" in forgotten.error
    assert not forgotten.ended


@pytest.mark.parametrize(("code", "state"), [("0", "COMPLETED"), ("1", "FAILED"), ("", "UNKNOWN")])
def test_the_exit_code_that_the_script_left_decides_when_slurm_has_forgotten(
    forgotten, code, state
):
    (forgotten.folder / "exit_code").write_text(code)
    assert forgotten.state == state


ENDINGS = [
    ("TIMEOUT", "ended by its time limit"),
    ("OUT_OF_MEMORY", "stopped, because it used more memory than it requested"),
    ("NODE_FAIL", "lost: one of its nodes stopped answering"),
    ("PREEMPTED", "ended to make room for a job of higher priority"),
]


@pytest.mark.parametrize(("state", "words"), ENDINGS)
def test_the_ways_to_end_that_no_cluster_shows_on_demand(forgotten, fake_slurm, state, words):
    fake_slurm(accounts=[row(f"7 {state} 0:9 61 n1 None lost")])
    assert (forgotten.state, forgotten.reason) == (state, words)
    assert forgotten.device_hours == 0
    assert words in forgotten.error


def test_a_job_of_another_cluster_with_the_same_number_is_not_taken_for_ours(forgotten, fake_slurm):
    fake_slurm(queue=[row("7 RUNNING None 0:01 n1 course:other lost")])
    assert forgotten.state == "UNKNOWN"


def test_a_state_of_the_future_is_passed_on(forgotten, fake_slurm):
    mark = forgotten._record.mark
    fake_slurm(queue=[row(f"7 TELEPORTING None 0:01 n1 {mark} lost")])
    assert forgotten.state == "TELEPORTING"
    assert "TELEPORTING" in forgotten.reason


def test_a_controller_that_is_silent_for_a_moment_ends_no_waiting(forgotten, fake, fake_slurm):
    mark = forgotten._record.mark
    fake_slurm(queue=[row(f"7 RUNNING None 0:01 n1 {mark} lost")])
    assert forgotten.state == "RUNNING"
    fake("squeue", 'echo "Unable to contact slurm controller" >&2; exit 1')
    forgotten._jobs.forget()
    assert forgotten.state == "RUNNING"


def test_a_folder_without_a_record_can_be_read_and_not_cancelled(lab, done, tmp_path):
    copy = tmp_path / "elsewhere" / "done-77"
    shutil.copytree(done.folder, copy)
    run = lab.open(copy)
    assert (run.name, run.job_id, run.state, run.text) == ("done", 77, "COMPLETED", "one line\n")
    assert run.recipe == done.recipe
    assert lab.runs()["job_id"].tolist() == [done.job_id]
    with pytest.raises(UnknownRunError, match=r"no recipe\.toml"):
        lab.open(tmp_path)


def test_a_run_of_another_place_is_never_cancelled_by_its_number(lab, done, tmp_path):
    """The job's number may also be the number of another person's job here."""
    copy = tmp_path / "elsewhere" / "done-77"
    shutil.copytree(done.folder, copy)
    (copy / "exit_code").unlink()
    with pytest.raises(LabError, match=r"job 77 was not submitted from here"):
        lab.open(copy).cancel()
    lab.jobs.registry.update(done._record, cluster="another", final=None)
    (done.folder / "exit_code").unlink()
    with pytest.raises(LabError, match=r"on the cluster where it runs"):
        lab.cancel("done")


@pytest.mark.parametrize("kind", [np.int64, np.int32])
def test_a_job_id_out_of_a_table_names_its_run(lab, done, kind):
    assert lab.run(kind(done.job_id)).job_id == done.job_id
    lab.cancel(kind(done.job_id))
    assert f"would delete done-{done.job_id}" in repr(lab.clean(kind(done.job_id)))


def test_many_runs_are_asked_for_with_one_question(lab, done, fake_slurm):
    runs = [lab.submit(shell.recipe(f"many{n}", "true")) for n in range(3)]
    for run in runs:
        assert isinstance(run, Run)
        run.wait(PATIENCE_S)
    lab.jobs.forget()
    calls = fake_slurm()
    open_records = [lab.jobs.registry.update(r._record, final=None) for r in runs]
    lab.jobs.statuses(open_records)
    text = calls.read_text()
    assert (text.count("squeue "), text.count("sacct ")) == (1, 1)
