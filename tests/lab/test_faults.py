"""Faults of the machine, of files and of other processes give the learner a sentence."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from course_lib.cli import main
from course_lib.lab.errors import RecipeError, SlurmError, WorkspaceError
from course_lib.lab.job.recipes import shell
from course_lib.lab.workspace import Workspace

FULL = r"""
mount -t tmpfs -o size=400k tmpfs "$COURSE_WORKSPACE"
course() { "$1" -m course_lib.cli "${@:2}"; }
script() { printf '#!/bin/bash\n%s\n' "$2" > "${COURSE_WORKSPACE%/*}/$1.sbatch"; }
script one 'echo printed before'; script two 'echo printed after'
course "$1" submit --watch "${COURSE_WORKSPACE%/*}/one.sbatch"
cat /dev/zero > "$COURSE_WORKSPACE/filler" 2>/dev/null
course "$1" runs; echo "runs $?"
course "$1" log one; echo "log $?"
course "$1" submit "${COURSE_WORKSPACE%/*}/two.sbatch"; echo "submit $?"
ls -A "$COURSE_WORKSPACE/runs" | grep -v ^one; echo "left $?"
rm "$COURSE_WORKSPACE/filler"
course "$1" submit --watch "${COURSE_WORKSPACE%/*}/two.sbatch"; echo "again $?"
"""


def test_commands_say_that_the_disk_of_the_workspace_is_full(cluster, tmp_path, private_mounts):
    folder = tmp_path / "workspace"
    folder.mkdir()
    done = subprocess.run(
        [*private_mounts, "bash", "-c", FULL, "full", sys.executable],
        env={**os.environ, "COURSE_WORKSPACE": str(folder)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    for line in ("runs 0", "printed before\nlog 0", "submit 2\nleft 1", "again 0"):
        assert line in done.stdout, said
    assert f"the disk of {folder}" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("letter", ["a", "é", "語"])
def test_a_name_of_48_letters_fits_into_every_file_that_bears_it(lab, letter):
    run = lab.submit(shell.recipe(letter * 48, "true"))
    assert run.wait(60) == "COMPLETED"
    assert lab.clean(run, yes=True).done


@pytest.mark.parametrize("name", ["𝒜" * 49, "a\ud800"])
def test_a_longer_name_is_refused(name):
    with pytest.raises(RecipeError, match="at most 48") as refused:
        shell.recipe(name, "true")
    works = str(refused.value).rpartition("such as ")[2].strip('"')
    assert shell.recipe(works, "true").name == works


HARMS = ("[]", "3", "{", '{"token": 3}', "\ufeff{}", "[" * 20000, '"\\ud800"', "", "null",
         '{"token":"t","name":"n","key":"k","job_id":"7"}',
         '{"token":"t","name":"n","key":"k","job_id":7,"folder":"../../etc"}',
         '{"token":"t","name":"n","key":"k","job_id":7,"folder":".."}',
         '{"token":"t","name":"n","key":"k","job_id":7,"final":{"state":3}}',
         '{"token":"t","name":"n","key":"k","job_id":7,"final":{"colour":"red"}}',
         '{"token":"t","name":"n","key":"k","job_id":7,"submitted_unix_s":"now"}')  # fmt: skip


@pytest.mark.parametrize("harm", HARMS, ids=range(len(HARMS)))
def test_records_edited_by_hand_are_passed_over(lab, harm):
    lab.workspace.records.mkdir(parents=True)
    (lab.workspace.records / "a.json").write_text(harm)
    assert lab.jobs.registry.all() == []
    assert lab.runs().empty
    assert "nothing to delete" in repr(lab.clean(yes=True))


def test_a_lock_of_another_user_is_a_sentence(tmp_path, monkeypatch, capsys, cluster):
    workspace = Workspace(tmp_path)
    lock = workspace.state / "lock"
    lock.mkdir(parents=True)  # cannot be opened for writing, by root neither
    with pytest.raises(WorkspaceError, match=r"cannot write to .*lock"), workspace.locked():
        pass
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    script = tmp_path / "one.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    assert main(["submit", "--site", cluster, str(script)]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_too_many_processes_are_a_sentence(lab, monkeypatch):
    def refuse(*_, **__):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "run", refuse)
    with pytest.raises(SlurmError, match="cannot be started: Resource temporarily unavailable"):
        lab.jobs.slurm.queue()


def test_what_a_job_compiles_lies_where_no_other_account_can_be_first(lab, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/tmp/torchinductor_somebody")  # as torch does
    run = lab.submit(shell.recipe("one", 'stat -c "%a %u" "$TORCHINDUCTOR_CACHE_DIR" "$TMPDIR"'))
    assert run.wait(60) == "COMPLETED"
    assert run.text.split("\n")[:2] == [f"700 {os.getuid()}"] * 2
