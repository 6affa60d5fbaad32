"""The guard limits the cost of a run, and deletes only the course's own files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from course_lib.lab.errors import LabError
from course_lib.lab.job.recipes import shell
from course_lib.lab.runs.clean import select

from .conftest import PATIENCE_S


def devices(name="costly", minutes=30, **changes):
    return shell.recipe(
        name, "true", nodes=2, gpus_per_node=2, time_limit_minutes=minutes, **changes
    )


def test_the_cost_is_said_before_anything_is_submitted(lab, capsys):
    lab._quiet = False
    lab.submit(devices()).wait(PATIENCE_S)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "costly: at most 4 devices × 30 min = 2.00 device-hours"
    assert "submitted" in lines[1]


def test_a_job_without_devices_is_not_said_to_use_any(lab, capsys):
    lab._quiet = False
    lab.submit(shell.recipe("hello", "true", time_limit_minutes=5))
    assert capsys.readouterr().out.splitlines()[0] == "hello: no devices, at most 5 min"


def test_a_run_over_the_budget_is_refused_with_what_would_fit(lab):
    lab.set_budget(1.0)
    with pytest.raises(LabError, match=r"2\.00 device-hours.*at most 15 minutes"):
        lab.submit(devices())
    assert lab.runs().empty
    assert lab.submit(devices(minutes=15)).wait(PATIENCE_S) == "COMPLETED"


def test_open_jobs_count_with_all_they_may_use_and_ended_ones_with_what_they_used(lab):
    lab.set_budget(3.0)
    run = lab.submit(shell.recipe("slow", "sleep 100", nodes=2, gpus_per_node=2,
                                  time_limit_minutes=30))  # fmt: skip
    assert lab.budget.reserved == pytest.approx(2.0)
    with pytest.raises(LabError):
        lab.submit(devices())
    lab.set_budget(1.0)
    assert lab.submit(shell.recipe("no-devices", "true")).job_id, "it costs nothing"
    run.cancel()
    run.wait(PATIENCE_S)
    lab.set_budget(3.0)
    assert lab.budget.reserved == 0
    assert lab.budget.left > 2.9
    lab.submit(devices()).wait(PATIENCE_S)


def test_a_run_that_is_there_already_costs_nothing(lab):
    run = lab.submit(devices())
    run.wait(PATIENCE_S)
    lab.set_budget(0.0)
    assert lab.submit(devices()).job_id == run.job_id


def test_the_limit_can_be_lifted(lab):
    lab.set_budget(0.0)
    lab.set_budget(None)
    assert lab.budget.left == float("inf")


def test_a_budget_file_that_says_nothing_stops_submissions(lab):
    lab.workspace.state.mkdir(parents=True, exist_ok=True)
    (lab.workspace.state / "budget.toml").write_text("device_hours = 'many'\n")
    with pytest.raises(LabError, match=r"device_hours = 20\.0"):
        lab.submit(devices())


def test_cleaning_is_shown_before_it_is_done(lab, done):
    plan = lab.clean()
    assert "would delete done-" in repr(plan)
    assert done.folder.exists()
    assert "deleted done-" in repr(lab.clean(yes=True))
    assert not done.folder.exists()
    assert list(lab.workspace.runs.iterdir()) == []
    assert lab.runs()["folder"].tolist() == [""]


def test_a_run_is_meant_by_its_folder_since_numbers_repeat_among_recorded_ones(lab, done):
    other = lab.submit(shell.recipe("other", "true"))
    other.wait(PATIENCE_S)
    other._record = replace(other._record, job_id=done.job_id)
    assert select([done, other], [done]) == ([done], [])
    assert select([done, other], [done.job_id]) == ([done, other], [])


def test_links_are_removed_and_never_followed(lab, done, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("mine")
    (done.folder / "link").symlink_to(precious)
    (done.folder / "checkpoints").symlink_to(precious)
    lab.clean("done", yes=True)
    assert (precious / "data").read_text() == "mine"


def test_a_run_folder_that_was_swapped_for_a_link_is_left_alone(lab, done, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    done.folder.rename(elsewhere)
    done.folder.symlink_to(elsewhere)
    assert "not deleted: done" in repr(lab.clean("done", yes=True))
    assert (elsewhere / "out.log").exists()


def test_a_folder_without_a_recipe_is_not_proven_to_be_ours(lab, done):
    (done.folder / "recipe.toml").unlink()
    assert "may not have made" in repr(lab.clean("done", yes=True))
    assert done.folder.exists()


def test_a_folder_that_the_course_did_not_make_is_never_touched(lab, done):
    foreign = lab.workspace.runs / "thesis-1"
    foreign.mkdir()
    (foreign / "recipe.toml").write_text("")
    lab.clean(yes=True)
    assert foreign.exists()


def test_a_run_that_goes_on_is_not_cleaned(lab):
    run = lab.submit(shell.recipe("slow", "sleep 100"))
    assert "has not ended" in repr(lab.clean("slow", yes=True))
    assert run.folder.exists()
    run.cancel()
    run.wait(PATIENCE_S)
