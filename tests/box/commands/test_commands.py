"""The commands as a user types them, on a box for these tests. Most commands run no job."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib import box as box_room
from course_lib.box.commands import command_line

COMMANDS = ("sbatch", "srun", "salloc", "squeue", "scancel", "sinfo", "scontrol", "sacct", "sstat")


def held(box, *options: str) -> str:
    """Number of a job that waits until it is released."""
    return box.run("sbatch", "--parsable", "-H", *options, "--wrap", "true").stdout.strip()


def shown(box, job: str) -> dict[str, str]:
    text = box.run("scontrol", "-o", "show", "job", job).stdout
    return dict(re.findall(r"(\S+?)=(\S*)", text))


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        ("-N3", 1, "Batch job submission failed: Node count specification invalid"),
        ("-n0", 1, 'Invalid numeric value "0" for --ntasks.'),
        (
            "-N1 -n9",
            1,
            "Batch job submission failed: Requested node configuration is not available",
        ),
        ("--mem=20G", 1, "Memory specification can not be satisfied"),
        ("-t 2-0", 1, "Requested time limit is invalid (missing or exceeds some limit)"),
        ("-p nosuch", 1, "invalid partition specified: nosuch"),
        ("-w node9", 1, "Batch job submission failed: Invalid node name specified"),
        ("-G5", 1, "Batch job submission failed: Requested node configuration is not available"),
        ("-d foo:1", 1, "Batch job submission failed: Job dependency problem"),
        ("--signal=FOO", 255, "Invalid --signal specification"),
        ("-m plane=2", 1, "the box does not support --distribution=plane=2; a real Slurm does."),
        ("--gpu-bind=closest", 1, "the box does not support --gpu-bind; a real Slurm does."),
        ("-N1-2", 1, "the box does not support --nodes=1-2; a real Slurm does."),
        ("--gres=gpu:a100:1", 1, "the box does not support --gres=gpu:a100:1; a real Slurm does."),
        ("--array=1-1001", 1, "Batch job submission failed: Invalid job array specification"),
        ("-n1 : -n1", 1, "the box does not support several components of one job"),
        ("-F nosuchfile", 1, "the box does not support --nodefile; a real Slurm does."),
    ],
)
def test_what_can_never_run_is_refused_in_slurms_words(box, options, code, complaint):
    done = box.run("sbatch", *options.split(), "--wrap", "true", check=False)
    assert (done.returncode, done.stdout) == (code, "")
    assert complaint in done.stderr
    assert all(line.startswith("sbatch: error: ") for line in done.stderr.splitlines())


def test_no_job_has_the_number_0(box):
    done = box.run("scancel", "0", check=False)
    assert (done.returncode, done.stderr) == (1, "scancel: error: Invalid job id 0\n")


def test_an_option_without_effect_says_so_once_and_the_job_is_taken(box):
    done = box.run(
        "sbatch", "--hold", "--parsable", "--switches=1", "--contiguous", "--wrap", "true"
    )
    assert done.stdout.strip().isdigit()
    assert done.stderr.splitlines() == [
        "sbatch: note: the box accepts --switches but ignores it",
        "sbatch: note: the box accepts --contiguous but ignores it",
    ]


def test_the_command_line_beats_variables_and_they_beat_the_script(box):
    path = box.work / "job.sh"
    path.write_text("#!/bin/sh\n#SBATCH -J script -c 2 --comment=script -H\n")
    environment = box.environment | {"SBATCH_JOB_NAME": "variable", "SBATCH_COMMENT": "unknown"}
    environment["SBATCH_CPUS_PER_TASK"] = "3"
    done = subprocess.run(
        ["sbatch", "--parsable", "-c4", str(path)],
        env=environment,
        cwd=box.work,
        capture_output=True,
        text=True,
        check=True,
    )
    found = shown(box, done.stdout.strip())
    assert found["JobName"] == "variable"
    assert found["CPUs/Task"] == "4"
    assert found["Comment"] == "script"


@pytest.mark.parametrize(
    "words",
    [
        ("scontrol", "update", "JobId=1", "TimeLimit=5"),
        ("scontrol", "show", "partition"),
        ("scontrol", "write", "batch_script", "1"),
        ("scontrol", "show", "step", "1.0"),
        ("squeue", "--steps"),
        ("squeue", "-o", "%s"),
        ("squeue", "-O", "JobID"),
        ("scancel", "--wckey=x"),
        ("sacct", "--duplicates"),
    ],
)
def test_what_the_box_does_not_do_is_refused_by_name_in_one_line(box, words):
    done = box.run(*words, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert "the box does not support " in done.stderr


def test_every_command_answers_about_itself(box):
    for command in COMMANDS:
        assert box.run(command, "--version").stdout == "slurm-wlm 22.05.8\n"
        assert box.run(command, "--usage").stdout.startswith(f"Usage: {command} ")
        assert f"works like {command} of Slurm" in box.run(command, "--help").stdout


def test_a_reader_that_has_enough_is_no_fault(box):
    held(box)
    done = box.run("bash", "-c", "squeue | head -c 5; sacct | head -n 1; sinfo | true")
    assert done.stderr == ""


@pytest.mark.parametrize("how", ["path", "link", "link of a link", "relative", "from another copy"])
def test_a_command_starts_however_it_is_called(box, tmp_path, how):
    folder = Path(box_room.bin_dir())
    if how == "from another copy":
        site = tmp_path / "with space" / "lib" / "python3" / "site-packages"
        site.mkdir(parents=True)
        subprocess.run(["cp", "-r", str(folder.parents[1]), str(site)], check=True)
        folder = site / "course_lib" / "box" / "bin"
    target = folder / "squeue"
    if how.startswith("link"):
        for name in ("one", "two")[: 1 + how.count("of")]:
            (tmp_path / name).mkdir()
            (tmp_path / name / "squeue").symlink_to(target)
            target = tmp_path / name / "squeue"
    if how == "relative":
        target = Path(os.path.relpath(target, box.work))
    environment = box.environment | {"COURSE_BOX_PYTHON": sys.executable}
    done = subprocess.run(
        [str(target), "-h"],
        env=environment,
        cwd=box.work,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_clone_is_not_started_with_a_python_that_lies_six_folders_above_it(box, tmp_path):
    """Six folders above ~/course lies /bin/python3, which has no torch for a warm start."""
    clone = tmp_path / "home" / "me" / "course"
    shutil.copytree(Path(box_room.bin_dir()).parents[1], clone / "course_lib", symlinks=True)
    wrong = tmp_path / "bin" / "python3"
    wrong.parent.mkdir()
    wrong.write_text("#!/bin/sh\necho the wrong Python\nexit 3\n")
    wrong.chmod(0o755)
    squeue = clone / "course_lib" / "box" / "bin" / "squeue"
    assert squeue.parent.joinpath("../../../../../../bin/python3").resolve() == wrong
    mine = str(Path(sys.executable).parent)
    environment = {**box.environment, "PATH": f"{mine}:{os.environ['PATH']}"}
    for name in ("COURSE_BOX_PYTHON", "VIRTUAL_ENV"):
        environment.pop(name, None)
    done = subprocess.run(
        [squeue, "-h"], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "wrong" not in done.stdout


def test_a_hostile_environment_does_not_reach_the_commands(box, tmp_path):
    (tmp_path / "os.py").write_text("raise SystemExit('wrong os')")
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit('wrong site')")
    hostile = {
        "PYTHONPATH": str(tmp_path),
        "PYTHONHOME": "/nonexistent",
        "PYTHONSTARTUP": str(tmp_path / "os.py"),
        "PYTHONINSPECT": "1",
        "PYTHONWARNINGS": "error",
        "PYTHONOPTIMIZE": "2",
        "PYTHONIOENCODING": "ascii",
        "LC_ALL": "C",
        "LANG": "nonsense",
        "POSIXLY_CORRECT": "1",
    }
    held(box, "-J", "ümlaut")
    done = subprocess.run(
        ["squeue", "-h", "-n", "ümlaut", "-o", "%j"],
        env=box.environment | hostile,
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, "ümlaut\n", b"")


def test_a_home_that_cannot_be_written_is_said_in_one_line(box, tmp_path):
    (tmp_path / "file").write_text("")
    environment = box.environment | {"COURSE_BOX_HOME": str(tmp_path / "file" / "home")}
    done = subprocess.run(
        ["sbatch", "--wrap", "true"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Unable to contact slurm controller" in done.stderr
    assert "cannot use its state file" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["sprio", "sview"])
def test_other_commands_of_slurm_refuse_by_name_and_say_what_to_do(box, command):
    done = box.run(command, "show", "-x", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    advice = command_line.INSTEAD.get(command, "Leave it out here.")
    said = f"{command}: error: the box does not support {command}; a real Slurm does."
    assert done.stderr == f"{said} {advice}\n"


@pytest.mark.parametrize(
    ("variable", "command"),
    [
        ("SLURM_MPI_TYPE=pmix", ("srun", "true")),
        ("SBATCH_GET_USER_ENV=1", ("sbatch", "--hold", "--wrap", "true")),
        ("SALLOC_CLUSTERS=other", ("salloc", "true")),
    ],
)
def test_a_profile_made_for_another_cluster_is_no_reason_to_refuse(box, variable, command):
    done = box.run("env", variable, *command)
    assert f"{command[0]}: note: {variable} is ignored: the box " in done.stderr
