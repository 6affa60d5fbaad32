"""A rehearsal says the day before what will fail, what will be slow, and what to book."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys

import pytest

from course_lib.classroom import rehearsal
from course_lib.classroom.rehearsal import Played, Shape
from course_lib.cli import main
from course_lib.lab.doctor.findings import BAD, FAIR, GOOD
from course_lib.lab.errors import LabError
from course_lib.lab.job.site import preset
from course_lib.lab.workspace import Workspace

BIG, SMALL = Shape(2, 2, 10), Shape(1, 1, 5)
MAGIC = re.compile(r"^\s*[!%].*$", re.MULTILINE)
LESSONS = {
    "03_x": [(BIG, 10.0)] * 8 + [(SMALL, 5.0)],
    "08_y": [(SMALL, 5.0)] * 4,
}


def findings(users=4, at_once=1, faults=0, refused=""):
    """Return the findings of a rehearsal with jobs of two seconds, `at_once` of them at a time."""
    played = [
        Played(100.0, 100.0 + n // at_once * 2.0, 102.0 + n // at_once * 2.0)
        for n in range(users - faults)
    ]
    played += [Played(100.0, fault="port: port 17 on node1")] * faults
    return list(rehearsal.judged(BIG, users, played, refused))


def literal_shapes(lesson):
    """(nodes, devices) of the recipes in which a lesson writes both as numbers."""
    text = "\n".join(
        line if not line.startswith("# %") else "" for line in lesson.read_text().splitlines()
    )
    for node in ast.walk(ast.parse(MAGIC.sub("", text))):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "recipe":
            named = {one.arg: one.value for one in node.keywords}
            both = [named.get("nodes"), named.get("gpus_per_node")]
            if all(isinstance(one, ast.Constant) for one in both):
                yield tuple(one.value for one in both)


def test_what_each_lesson_asks_for_is_in_its_recording(repository):
    recorded = rehearsal.jobs_of([])
    lessons = {path.stem: path for path in (repository / "lessons").glob("*.py")}
    assert set(recorded) == {n for n, path in lessons.items() if "lab.submit(" in path.read_text()}
    for name, jobs in recorded.items():
        asked = {(shape.nodes, shape.devices_per_node) for shape, _seconds in jobs}
        assert set(literal_shapes(lessons[name])) <= asked, f"{name} asks for more than is recorded"


def test_lessons_are_chosen_by_number():
    assert list(rehearsal.jobs_of(["07b", "00"])) == ["00_the_lab", "07b_pipelines_and_both"]
    with pytest.raises(LabError, match="'99' begins no lesson"):
        rehearsal.jobs_of(["99"])


def test_shapes_that_differ_in_time_alone_are_tried_once_with_the_longest():
    lessons = {"a": [(BIG, 1.0), (Shape(2, 2, 60), 1.0)], "b": [(SMALL, 1.0)]}
    assert rehearsal.distinct(lessons) == [Shape(2, 2, 60), SMALL]


def test_a_wave_tells_how_many_ran_at_once_and_how_long_the_last_waited():
    [waited], [well] = findings(users=6, at_once=2), findings(at_once=4)
    assert (waited.level, well.level) == (FAIR, GOOD)
    assert "2 ran at a time, the last began after 4 s" in waited.what
    assert findings(users=0) == []


def test_faults_and_refusals_will_fail():
    found = findings(faults=2, refused="sbatch: MaxSubmitJobs")
    assert [one.level for one in found] == [BAD, BAD, FAIR]
    assert "after 4 the cluster took no more: sbatch: MaxSubmitJobs" in found[0].what
    assert "2 failed: port: port 17 on node1" in found[1].what


def test_what_to_book_is_nodes_for_all_and_the_hours_of_all_lessons():
    said = rehearsal.to_book(LESSONS, 10, preset("slurm"))
    assert said.startswith("to book: 20 nodes with 2 devices each")
    assert "about 1.0 device-hours" in said
    assert "20 GiB of memory" in rehearsal.to_book(LESSONS, 10, preset("box"))


def test_disk_for_all_is_counted(tmp_path):
    [enough] = rehearsal.disk(Workspace(tmp_path), 1)
    assert enough.level == GOOD
    [lacking] = rehearsal.disk(Workspace(tmp_path), 10_000_000)
    assert lacking.level == BAD
    assert "make room" in lacking.cure


def test_a_full_disk_is_said_before_any_job_is_sent(private_mounts, tmp_path, repository):
    small = tmp_path / "small"
    small.mkdir()
    course = [sys.executable, "-m", "course_lib.cli", "rehearse", "--site", "box", "--users", "2"]
    line = 'mount -t tmpfs -o size=8m tmpfs "$1" && shift && exec "$@"'
    environment = {**os.environ, "COURSE_WORKSPACE": str(small), "PYTHONPATH": str(repository),
                   "COURSE_BOX_HOME": str(tmp_path / "box")}  # fmt: skip
    done = subprocess.run(
        [*private_mounts, "bash", "-c", line, "_", str(small), *course, "--lessons", "05"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert f"GiB cannot be written to {small}: No space left on device" in done.stdout
    assert "no jobs were sent" in done.stdout


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    monkeypatch.setenv("COURSE_BOX_HOME", str(tmp_path / "box"))
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setattr(rehearsal, "OF_A_LEARNER_GIB", 0.01)
    return tmp_path


def test_a_wrong_partition_is_said_before_any_job_is_sent(place, capsys):
    (place / "site.toml").write_text('name = "x"\nbox = true\n[slurm]\npartition = "gpu"\n')
    assert main(["rehearse", "--users", "2", "--lessons", "05"]) == 1
    said = capsys.readouterr().out
    assert "Invalid partition name specified" in said
    assert "no jobs were sent" in said
    assert not (place / "runs").exists()


def test_a_rehearsal_on_the_box_runs_its_jobs_and_leaves_nothing(place, capsys):
    assert main(["rehearse", "--site", "box", "--users", "2", "--lessons", "05"]) == 0
    said = capsys.readouterr().out
    assert "a job ran on node1, node2" in said
    assert "2 jobs at once, 2 nodes, 2 devices each: 1 ran at a time" in said
    assert "Nothing of this stops the class." in said
    assert not (place / ".course" / "rehearsal").exists()
    assert list((place / "runs").iterdir()) == []


def test_where_nothing_runs_there_is_nothing_to_rehearse(place, capsys):
    assert main(["rehearse", "--site", "recorded"]) == 2
    assert "nothing to rehearse" in capsys.readouterr().err
