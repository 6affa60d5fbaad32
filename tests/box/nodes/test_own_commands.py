# ruff: noqa: E501  lines of shell
"""In a job the commands of the box answer, whatever its PATH is."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from course_lib.box.nodes import own_commands


@pytest.fixture
def other_slurm(box):
    """A folder with commands of another Slurm, first in the PATH of the submission."""
    folder = box.work / "other"
    folder.mkdir(exist_ok=True)
    for name in ("srun", "squeue"):
        (folder / name).write_text("#!/bin/sh\necho another Slurm\n")
        (folder / name).chmod(0o755)
    before = box.environment["PATH"]
    box.environment["PATH"] = f"{before}:{folder}"
    yield folder
    box.environment["PATH"] = before


def test_a_login_shell_finds_them(any_box):
    text = any_box.result(
        "bash -lc 'srun -n1 squeue -h -o %j'; bash --login -c 'scontrol show hostnames \"$SLURM_JOB_NODELIST\"'",
        "-J", "login",
    )  # fmt: skip
    assert text == "login\nnode1\n"


def test_a_script_whose_own_shell_is_a_login_shell_finds_them(any_box):
    job = any_box.run(
        "sbatch", "--parsable", "-o", "out-%j", "-J", "whole",
        input="#!/bin/bash -l\nsrun -n1 squeue -h -o %j\n",
    ).stdout.strip()  # fmt: skip
    assert any_box.wait(job) == "COMPLETED", any_box.output(job)
    assert any_box.output(job) == "whole\n"


@pytest.mark.parametrize(
    "command",
    [
        "env -i /bin/sh -c 'squeue -h -o %j'",
        "env -i SLURM_JOB_ID=$SLURM_JOB_ID /bin/bash -c 'srun -n1 squeue -h -o %j'",
        "(PATH=/usr/bin:/bin; squeue -h -o %j)",
        "env PATH=/usr/bin squeue -h -o %j",
        "env -u PATH /bin/sh -c 'squeue -h -o %j'",
        "/usr/bin/squeue -h -o %j",
        "srun -n1 env -i /bin/sh -c 'squeue -h -o %j'",
    ],
)
def test_a_fresh_environment_finds_them(box, namespaces, command):
    assert box.result(command, "-J", "fresh") == "fresh\n"


def test_no_other_slurm_answers(box, namespaces, other_slurm):
    text = box.result(
        f"PATH={other_slurm}:$PATH; squeue -h -o %j; {other_slurm}/srun -n1 hostname", "-J", "mine"
    )
    assert text == "mine\nnode1\n"
    assert (other_slurm / "srun").read_text() == "#!/bin/sh\necho another Slurm\n"


def test_nothing_is_written_to_the_machine(box, namespaces):
    before = sorted(Path("/usr/bin").iterdir())
    text = box.result(
        "touch /usr/bin/new 2>/dev/null || echo refused; command -v env; env true && echo works"
    )
    assert text == "refused\n/usr/bin/env\nworks\n"
    assert sorted(Path("/usr/bin").iterdir()) == before


def test_bash_reads_the_start_file_of_the_user_too(make_box):
    flat = make_box(mode="flat")
    own = flat.work / "own.sh"
    own.write_text("mine=read\n")
    flat.environment["BASH_ENV"] = str(own)
    assert flat.result("echo $mine; bash -lc 'echo $mine; squeue -h -o %j'", "-J", "both") == (
        "read\nread\nboth\n"
    )


def test_a_job_that_a_job_submits_reads_it_once(make_box):
    flat = make_box(mode="flat")
    own = flat.work / "own.sh"
    own.write_text("mine=read\n")
    flat.environment["BASH_ENV"] = str(own)
    inner = shlex.quote("bash -c 'echo $mine; squeue -h -o %j'")  # the wrap itself is for sh
    flat.result(f"sbatch --wait -o inner-out -J inner --wrap {inner}", "-J", "outer")
    assert sorted((flat.work / "inner-out").read_text().split()) == ["inner", "outer", "read"]


def test_the_commands_are_written_as_paths_with_any_characters_need_it(tmp_path):
    odd = tmp_path / "od'd $(x) bin"
    odd.mkdir()
    (odd / "srun").write_text('#!/bin/sh\necho "$COURSE_BOX_HOME" "$@"\n')
    (odd / "srun").chmod(0o755)
    job = tmp_path / "job"
    job.mkdir()
    for _ in range(2):  # a requeued job writes them again
        own_commands.write(str(job), "/the ho'me", "/python", str(odd))
    command = job / own_commands.FRONT / "srun"
    assert os.popen(f"env -i '{command}' a").read() == "/the ho'me a\n"
    assert os.popen(f"env -i COURSE_BOX_HOME=/mine '{command}' b").read() == "/mine b\n"


def test_folders_with_commands_of_a_slurm_are_covered_and_usr_bin_always(tmp_path):
    own, other, empty = tmp_path / "own", tmp_path / "other", tmp_path / "empty"
    for folder in (own, other, empty):
        folder.mkdir()
    for folder in (own, other):
        (folder / "srun").touch()
    covered = own_commands.folders_to_cover(f"{own}:{other}:{empty}:relative:", str(own))
    assert covered[0] == own_commands.IN_EVERY_PATH
    assert str(other) in covered
    assert not {str(own), str(empty), "relative", ""} & set(covered)
    assert all(Path(folder).is_dir() for folder in covered)
