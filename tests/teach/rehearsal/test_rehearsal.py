"""A rehearsal says the day before what will fail, what will be slow, and what to book."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys

import pytest

from course_lib.cli import main
from course_lib.lab.doctor.findings import BAD, FAIR, GOOD
from course_lib.lab.errors import LabError
from course_lib.lab.job.site import preset
from course_lib.lab.queue.records import Record
from course_lib.lab.workspace import Workspace
from course_lib.teach.rehearsal import places, shapes, verdict
from course_lib.teach.rehearsal.shapes import Jobs, Shape
from course_lib.teach.rehearsal.waves import Played, Wave

BIG, SMALL = Shape(2, 2, 10), Shape(1, 1, 5)
MAGIC = re.compile(r"^\s*[!%].*$", re.MULTILINE)
LESSONS = {"03_x": (Jobs(BIG, 8, 10.0), Jobs(SMALL, 1, 5.0)), "08_y": (Jobs(SMALL, 4, 5.0),)}


def wave(shape=BIG, users=4, at_once=1, lasts=2.0, faults=0, refused=""):
    """As a cluster plays it that has room for so many at once."""
    played = [
        Played(100.0, 100.0 + n // at_once * lasts, 100.0 + (n // at_once + 1) * lasts)
        for n in range(users - faults)
    ]
    played += [Played(100.0, fault="port: port 17 on node1")] * faults
    return Wave(shape, users, tuple(played), refused)


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


def test_every_lesson_with_jobs_is_known_with_what_it_asks_for(repository):
    known = shapes.known()
    lessons = {path.stem: path for path in (repository / "lessons").glob("*.py")}
    assert set(known) <= set(lessons)
    without = {
        name for name in set(lessons) - set(known) if "lab.submit(" in lessons[name].read_text()
    }
    assert without == set(), "learn them: course rehearse --learn WORKSPACE"
    for name, jobs in known.items():
        asked = {(one.shape.nodes, one.shape.devices_per_node) for one in jobs}
        assert set(literal_shapes(lessons[name])) <= asked, f"{name} asks for more than is known"


def test_lessons_are_chosen_by_number_or_by_the_beginning_of_their_name():
    assert list(shapes.chosen(["07"])) == ["07_tensor_parallelism"]
    assert list(shapes.chosen(["07b", "00"])) == ["00_the_lab", "07b_pipelines_and_both"]
    assert shapes.chosen([]) == shapes.known()
    with pytest.raises(LabError, match="'99' begins no lesson"):
        shapes.chosen(["99"])


def test_shapes_that_differ_in_time_alone_are_tried_once_with_the_longest():
    lessons = {"a": (Jobs(BIG, 1, 1.0), Jobs(Shape(2, 2, 60), 1, 1.0)), "b": (Jobs(SMALL, 1, 1.0),)}
    assert shapes.distinct(lessons) == [Shape(2, 2, 60), SMALL]


def test_shapes_are_learned_from_what_jobs_did(tmp_path, monkeypatch):
    def record(nodes, devices, seconds):
        final = {"state": "COMPLETED", "nodes": nodes, "elapsed_s": seconds}
        named = dict.fromkeys(("token", "name", "key"), "x")
        return Record(**named, devices=devices, time_limit_minutes=10, final=final)

    made = [record("node[1-2]", 4, 3.0), record("node[1-2]", 4, 5.0), record("node1", 0, 1.0),
            record("", 4, 0.0)]  # fmt: skip
    monkeypatch.setattr(shapes, "by_lesson", lambda workspace: {"03_x": made})
    found = shapes.learn([tmp_path])
    assert found == {"03_x": (Jobs(Shape(2, 2, 10), 2, 4.0), Jobs(Shape(1, 0, 10), 1, 1.0))}
    file = tmp_path / "shapes.toml"
    shapes.keep(found, file)
    monkeypatch.setattr(shapes, "FILE", file)
    assert shapes.known() == found


def test_a_wave_tells_waits_and_how_many_ran_at_once():
    played = wave(users=6, at_once=2)
    assert (played.at_once, played.median_wait_s, played.longest_wait_s) == (2, 2.0, 4.0)
    assert wave(users=3, at_once=3).at_once == 3
    assert (wave(users=0).at_once, wave(users=0).longest_wait_s) == (0, 0.0)


def test_what_all_run_at_once_is_good_and_what_waits_is_worth_knowing():
    levels = [one.level for one in verdict.of_waves([wave(at_once=4), wave(at_once=1)])]
    assert levels == [GOOD, FAIR]


def test_faults_and_refusals_will_fail():
    found = list(verdict.of_waves([wave(faults=2, refused="sbatch: MaxSubmitJobs")]))
    assert [one.level for one in found] == [BAD, BAD, FAIR]
    assert "after 4 the cluster took no more: sbatch: MaxSubmitJobs" in found[0].what
    assert "2 failed: port: port 17 on node1" in found[1].what


def test_a_lesson_is_slow_where_all_wait_for_each_other():
    waves = [wave(BIG, users=30, at_once=1), wave(SMALL, users=30, at_once=30)]
    [found] = verdict.slow(LESSONS, waves)
    assert "03 (85 s → 40 min)" in found.what
    assert "08" not in found.what
    assert list(verdict.slow(LESSONS, [wave(BIG, 30, 30), wave(SMALL, 30, 30)])) == []


def test_what_to_book_is_nodes_for_all_and_the_hours_of_all_lessons():
    said = verdict.to_book(LESSONS, 10, preset("slurm"))
    assert said.startswith("to book: 20 nodes with 2 devices each")
    assert "about 1.0 device-hours" in said
    assert "20 GiB of memory" in verdict.to_book(LESSONS, 10, preset("box"))


def test_memory_and_cores_are_counted_where_all_have_a_box_on_one_machine():
    assert list(places.memory(1, preset("slurm"))) == []
    [many] = places.memory(10_000, preset("box"))
    assert many.level == FAIR
    assert "20000 GiB" in many.what


def test_disk_for_all_is_counted(tmp_path):
    [enough] = places.disk(Workspace(tmp_path), 1)
    assert enough.level == GOOD
    [lacking] = places.disk(Workspace(tmp_path), 10_000_000)
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
    monkeypatch.setattr(places, "OF_A_LEARNER_GIB", 0.01)
    return tmp_path


def test_a_wrong_partition_is_said_before_any_job_is_sent(place, capsys):
    (place / "site.toml").write_text('name = "x"\nbox = true\n[slurm]\npartition = "gpu"\n')
    assert main(["rehearse", "--users", "2", "--lessons", "05"]) == 1
    said = capsys.readouterr().out
    assert "no partition 'gpu' here" in said
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
