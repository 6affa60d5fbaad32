"""`course lessons update` copies new versions and never loses a learner's work."""

from __future__ import annotations

import json
import subprocess
import sys

import nbformat
import pytest

from course_lib.classroom import lessons
from course_lib.lab.errors import LabError
from course_lib.lab.workspace import find

NAME = "00_test.ipynb"


def notebook(*sources: str) -> str:
    cells = [nbformat.v4.new_code_cell(text, id=f"c{n}") for n, text in enumerate(sources)]
    return json.dumps(nbformat.v4.new_notebook(cells=cells))


OLD, NEW, NEWER = notebook("old"), notebook("new"), notebook("newer")
MINE = notebook("old", "my answer")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "workspace" / "notebooks"


def files(folder) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.glob("*.ipynb")}


def test_who_has_no_copy_gets_one(folder):
    done = lessons.update(folder, {NAME: OLD})
    assert files(folder) == {NAME: OLD}
    assert f"{NAME} copied to {folder}" in str(done)
    assert not (folder / "../images/overview.svg").resolve().is_relative_to(lessons.SHIPPED)


def test_a_copy_without_changes_is_replaced(folder):
    lessons.update(folder, {NAME: OLD})
    done = lessons.update(folder, {NAME: NEW})
    assert files(folder) == {NAME: NEW}
    assert "you had no changes" in str(done)


def test_a_copy_with_changes_stays_and_each_new_version_is_laid_beside_it_once(folder):
    lessons.update(folder, {NAME: OLD})
    (folder / NAME).write_text(MINE)
    assert lessons.update(folder, {NAME: OLD}) == []
    done = lessons.update(folder, {NAME: NEW})
    assert files(folder) == {NAME: MINE, "00_test.new.ipynb": NEW}
    assert f"{NAME} has your changes and stays; the new version is 00_test.new.ipynb" in str(done)
    (folder / "00_test.new.ipynb").unlink()  # the learner does not want it
    assert lessons.update(folder, {NAME: NEW}) == []
    assert files(folder) == {NAME: MINE}


def test_a_new_version_that_was_changed_too_is_kept_beside_the_next(folder):
    lessons.update(folder, {NAME: OLD})
    (folder / NAME).write_text(MINE)
    lessons.update(folder, {NAME: NEW})
    lessons.update(folder, {NAME: NEWER})
    assert files(folder) == {NAME: MINE, "00_test.new.ipynb": NEWER}
    (folder / "00_test.new.ipynb").write_text("no notebook any more")
    lessons.update(folder, {NAME: NEW})
    kept = {NAME: MINE, "00_test.new.ipynb": "no notebook any more", "00_test.new.new.ipynb": NEW}
    assert files(folder) == kept


def test_what_a_cell_has_shown_is_the_learners_as_well(folder):
    lessons.update(folder, {NAME: OLD})
    run = json.loads(OLD)
    run["cells"][0]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "42"}]
    (folder / NAME).write_text(json.dumps(run))
    lessons.update(folder, {NAME: NEW})
    assert files(folder) == {NAME: json.dumps(run), "00_test.new.ipynb": NEW}


def test_that_jupyterlab_has_saved_it_is_no_change_of_the_learners(folder):
    lessons.update(folder, {NAME: OLD})
    saved = json.loads(OLD)
    saved["metadata"] = {"language_info": {"name": "python", "version": "3.11"}}
    saved["cells"][0]["source"] = [saved["cells"][0]["source"]]
    (folder / NAME).write_text(json.dumps(saved, indent=4))
    lessons.update(folder, {NAME: NEW})
    assert files(folder) == {NAME: NEW}


def test_a_lesson_that_is_no_more_stays_and_one_that_was_deleted_comes_again(folder):
    lessons.update(folder, {NAME: OLD, "01_gone.ipynb": OLD})
    (folder / NAME).unlink()
    lessons.update(folder, {NAME: NEW})
    assert files(folder) == {NAME: NEW, "01_gone.ipynb": OLD}


def test_an_update_that_was_interrupted_loses_nothing(folder, monkeypatch):
    lessons.update(folder, {NAME: OLD, "01_x.ipynb": OLD})
    (folder / NAME).write_text(MINE)
    write = lessons.write_atomically

    def full(path, text):
        if path.name == "01_x.ipynb":
            raise OSError(28, "No space left on device")
        write(path, text)

    monkeypatch.setattr(lessons, "write_atomically", full)
    with pytest.raises(OSError, match="No space"):
        lessons.update(folder, {NAME: NEW, "01_x.ipynb": NEW})
    monkeypatch.undo()
    lessons.update(folder, {NAME: NEW, "01_x.ipynb": NEW})
    assert files(folder) == {NAME: MINE, "00_test.new.ipynb": NEW, "01_x.ipynb": NEW}


def test_a_library_without_lessons_says_where_they_come_from(folder):
    with pytest.raises(LabError, match="came without its lessons"):
        lessons.update(folder, {})


@pytest.fixture
def clone(tmp_path, repository):
    """Files of the repository as a fresh clone has them."""
    clone = tmp_path / "clone"
    for name in ("lessons", "notebooks", "solutions", "images"):
        clone.mkdir(exist_ok=True)
        subprocess.run(["cp", "-R", repository / name, clone / name], check=True)
    (clone / "course_lib").mkdir()
    return clone


def test_in_a_clone_the_copies_are_ignored_by_git_and_belong_to_its_workspace(
    clone, repository, monkeypatch
):
    monkeypatch.delenv("COURSE_WORKSPACE", raising=False)
    lessons.update_workspace(clone)
    mine = clone / "my_notebooks"
    for kind, folder in (("notebooks", mine), ("solutions", mine / "solutions")):
        assert files(folder) == files(clone / kind)
        monkeypatch.chdir(folder)
        assert find().folder == clone, "runs and progress stay where they were"
        assert (folder / "../images/overview.svg").is_file()
    ignored = subprocess.run(
        [
            "git",
            "-c",
            f"safe.directory={repository}",
            "check-ignore",
            "my_notebooks/00_the_lab.ipynb",
        ],
        cwd=repository,
        check=False,
    )
    assert ignored.returncode == 0


def test_korean_copies_lie_in_a_folder_of_their_own_and_show_the_same_pictures(
    tmp_path, monkeypatch
):
    monkeypatch.delenv("COURSE_WORKSPACE", raising=False)
    lessons.update_workspace(tmp_path)
    lessons.update_workspace(tmp_path, "ko")
    korean = tmp_path / "notebooks" / "ko"
    assert set(files(korean)) == set(files(tmp_path / "notebooks"))
    assert (korean / "../../images/overview.svg").is_file()
    monkeypatch.chdir(korean)
    assert find().folder == tmp_path, "runs and progress are those of the English ones"
    assert "실습실" in files(korean)["00_the_lab.ipynb"]
    assert lessons.update_workspace(tmp_path, "ko")[1] == []


def test_the_command_copies_into_the_workspace_and_says_so(tmp_path, repository, monkeypatch):
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    command = [sys.executable, "-m", "course_lib.cli", "lessons", "update"]
    said = [subprocess.check_output(command, cwd=repository, text=True) for _ in range(2)]
    assert files(tmp_path / "notebooks") == files(repository / "notebooks")
    assert "copied to" in said[0]
    assert "are the newest" in said[1]
    assert (tmp_path / "notebooks" / "00_the_lab.ipynb").stat().st_mode & 0o077 == 0
