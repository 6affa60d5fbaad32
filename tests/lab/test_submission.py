"""A recipe is submitted once, from any number of processes, and even if one of them is killed."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from course_lib.lab.errors import LabError, NotRecordedError, SlurmError, UnknownRunError
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes import gpt, shell
from course_lib.lab.lab import Lab
from course_lib.lab.queue import submission

from .conftest import HOSTILE, PATIENCE_S

HELLO = 'echo "hello from $SLURM_JOB_ID"'


def hello(**changes):
    return shell.recipe("hello", HELLO, **changes)


def test_a_run_has_its_folder_with_everything_in_it(lab):
    run = lab.submit(hello())
    assert run.wait(PATIENCE_S) == "COMPLETED"
    assert run.folder == lab.workspace.runs / f"hello-{run.job_id}"
    assert run.text == f"hello from {run.job_id}\n"
    assert (run.folder / "exit_code").read_text() == "0\n"
    assert run.recipe == hello()
    assert run.script == lab.script(hello())
    assert (run.folder / "job.sbatch").read_text() == lab.script(hello()).text
    assert run.site["name"] == lab.site.name
    assert run.exit_code == 0


def test_the_same_recipe_is_submitted_once(lab, capsys):
    one = lab.submit(hello())
    lab._quiet = False
    assert lab.submit(hello()).job_id == one.job_id
    assert "is returned" in capsys.readouterr().out
    one.wait(PATIENCE_S)
    assert lab.submit(hello(note="a comment is no difference")).job_id == one.job_id
    assert lab.submit(hello(time_limit_minutes=6)).job_id != one.job_id


def test_again_submits_once_more(lab):
    one = lab.submit(hello())
    two = lab.submit(hello(), again=True)
    assert two.job_id != one.job_id
    assert lab.run("hello").job_id == two.job_id
    assert lab.run(one.job_id).job_id == one.job_id


ITERATION = " iteration 1/ 9 | elapsed time per iteration (ms): 5.0 | lm loss: 7.5E+00 |"


def test_a_run_that_failed_after_an_iteration_is_returned_with_the_way_to_run_it_again(lab, capsys):
    recipe = shell.recipe("bad", f"echo '{ITERATION}'; exit 3")
    one = lab.submit(recipe)
    assert one.wait(PATIENCE_S) == "FAILED"
    lab._quiet = False
    assert lab.submit(recipe).job_id == one.job_id
    said = capsys.readouterr().out
    assert "exit code 3" in said
    assert "again=True" in said
    assert len(one.log.iterations) == 1


def test_a_run_that_failed_before_its_first_iteration_is_submitted_anew(lab, capsys):
    recipe = shell.recipe("bad", "echo begun; exit 3")
    one = lab.submit(recipe)
    assert one.wait(PATIENCE_S) == "FAILED"
    with pytest.raises(NotRecordedError, match=r"has no iteration: it is failed.*exit code 3"):
        _ = one.log
    assert (one.text, one.failure) == ("begun\n", None)
    lab._quiet = False
    assert lab.submit(recipe).job_id != one.job_id
    assert f"job {one.job_id} of the same recipe has no result (failed: " in capsys.readouterr().out


def test_a_run_that_was_cancelled_is_submitted_anew(lab):
    """An older run that is complete is still the run of this recipe."""
    recipe = shell.recipe("long", f"echo '{ITERATION}'; [ -e {lab.work}/go ] || sleep 100")
    one = lab.submit(recipe)
    while not one.text:
        time.sleep(0.1)
    lab.cancel(one)
    assert one.wait(PATIENCE_S) == "CANCELLED"
    lab.work.mkdir(exist_ok=True)
    (lab.work / "go").touch()
    two = lab.submit(recipe)
    assert two.job_id != one.job_id
    assert two.wait(PATIENCE_S) == "COMPLETED"
    (lab.work / "go").unlink()
    three = lab.submit(recipe, again=True)
    three.cancel()
    three.wait(PATIENCE_S)
    assert lab.submit(recipe).job_id == two.job_id


PARTS = ["text", "log", "failure", "nccl", "memory", "profile", "diary", "links", "monitor"]


def test_what_a_cancelled_run_left_is_no_result(lab):
    run = lab.submit(shell.recipe("long", "echo begun; sleep 100"))
    while not run.text:
        time.sleep(0.1)
    with pytest.raises(NotRecordedError, match=r"long \(job .* has no iteration: it is running"):
        _ = run.log
    run.cancel()
    run.wait(PATIENCE_S)
    for part in PARTS:
        with pytest.raises(NotRecordedError) as caught:
            getattr(run, part)
        assert str(caught.value) == run.error
    assert run.error == (
        f"long (job {run.job_id}) was cancelled and has no result. Run the cell that submits it "
        "again to make a new run"
    )
    assert run.tail().startswith("begun")


def test_a_run_that_was_cleaned_away_is_submitted_anew(lab, done):
    lab.clean(done, yes=True)
    assert lab.submit(shell.recipe("done", "echo one line")).job_id != done.job_id


@pytest.mark.parametrize("part", ["recipe", "script", "log", "memory", "profile", "monitor"])
def test_a_run_that_was_cleaned_away_says_so_when_it_is_read(lab, done, part):
    lab.clean(done, yes=True)
    assert (done.deleted, done.ok, done.text, done.error) == (True, True, "", "")
    with pytest.raises(UnknownRunError, match=r"done .* was deleted.*submits it again"):
        getattr(done, part)


def test_a_program_that_changed_is_run_anew(lab, tmp_path, capsys):
    program = tmp_path / "train.py"
    program.write_text("import helper\n")
    (tmp_path / "helper.py").write_text("A = 1\n")
    recipe = Recipe(name="t", program=str(program), launcher="srun")
    one = lab.submit(recipe)
    assert lab.submit(recipe).job_id == one.job_id
    (tmp_path / "helper.py").write_text("A = 2\n")
    lab._quiet = False
    assert lab.submit(recipe).job_id != one.job_id
    assert "has changed" in capsys.readouterr().out


def test_a_workspace_with_a_hostile_name_works(cluster, tmp_path):
    lab = Lab(tmp_path / HOSTILE, site=cluster, quiet=True)
    run = lab.submit(shell.recipe("hostile", 'touch "$COURSE_RUN_DIR/here"; echo done'))
    assert run.wait(PATIENCE_S) == "COMPLETED", run.error
    assert run.text == "done\n"
    assert (run.folder / "here").exists()
    assert run.exit_code == 0
    assert not list(tmp_path.rglob("pwned"))


def test_a_whole_script_runs_with_the_lab_s_folder(lab):
    text = "#!/bin/bash\n#SBATCH --output=elsewhere.log -t 2\necho $SLURM_JOB_NAME\nexit 4\n"
    run = lab.submit(shell.script("own", text))
    assert run.wait(PATIENCE_S) == "FAILED"
    assert run.text == "own\n"
    assert run.script.text == text
    assert run.recipe.time_limit_minutes == 2


def test_what_the_cluster_refuses_leaves_nothing_behind(lab):
    with pytest.raises(SlurmError, match=r"(?s)sbatch exited with 1.*→"):
        lab.submit(shell.recipe("lost", "true", directives={"partition": "nowhere"}))
    assert lab.jobs.registry.unfinished() == []
    assert list(lab.workspace.runs.iterdir()) == []
    assert lab.runs().empty


@pytest.mark.parametrize(
    "recipe",
    [
        shell.recipe("wide", "true", gpus_per_node=16),
        shell.recipe("many", "true", nodes=64),
        Recipe(name="own", script="#!/bin/bash\n#SBATCH -N2 --gpus-per-node=9\ntrue\n"),
    ],
    ids=lambda recipe: recipe.name,
)
def test_a_job_that_could_never_run_is_refused_by_the_cluster(lab, recipe):
    with pytest.raises(SlurmError, match=r"(?s)sbatch --test-only.*allocation failure"):
        lab.submit(recipe)
    assert lab.runs().empty
    assert all(row.status.ended for row in lab.jobs.slurm.queue())


SUBMIT_IN_ANOTHER_PROCESS = """
import os, sys
from course_lib.lab.queue import submission
from course_lib.lab.lab import Lab
from course_lib.lab.job.recipes import gpt, shell
die_at = sys.argv[3]
def dying(name):
    real = getattr(submission, name)
    def call(*words, **named):
        if die_at == f"before {name}":
            os._exit(9)
        value = real(*words, **named)
        if die_at == f"after {name}":
            os._exit(9)
        return value
    setattr(submission, name, call)
for name in ("_sbatch", "_finish", "_make_room", "_prepare", "_release"):
    dying(name)
lab = Lab(sys.argv[1], site=sys.argv[2], quiet=True)
print(lab.submit(shell.recipe("hello", 'echo "hello from $SLURM_JOB_ID"')).job_id)
"""


def start_submitting(lab, die_at=""):
    command = [sys.executable, "-c", SUBMIT_IN_ANOTHER_PROCESS]
    command += [str(lab.workspace), lab.site.name, die_at]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def jobs_called_hello(lab):
    marks = {record.mark for record in lab.jobs.registry.all()}
    return [row for row in lab.jobs.slurm.queue() if row.comment in marks]


def test_three_notebooks_at_once_submit_one_job(lab):
    processes = [start_submitting(lab) for _ in range(3)]
    answers = [process.communicate(timeout=PATIENCE_S) for process in processes]
    assert len({out for out, _ in answers}) == 1, answers
    assert len(lab.jobs.registry.all()) == 1
    assert len(jobs_called_hello(lab)) == 1


DEATHS = [
    "before _sbatch", "after _sbatch", "after _make_room", "before _release", "after _release",
]  # fmt: skip


@pytest.mark.parametrize("die_at", DEATHS)
def test_a_notebook_killed_while_submitting_leaves_one_job_that_runs(lab, die_at):
    process = start_submitting(lab, die_at)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 9
    again = Lab(lab.workspace.folder, site=lab.site.name, quiet=True)
    run = again.submit(hello())
    assert run.wait(PATIENCE_S) == "COMPLETED", run.error
    assert run.text == f"hello from {run.job_id}\n"
    assert len(jobs_called_hello(lab)) == 1
    assert [
        row for row in lab.jobs.slurm.queue() if row.name == "hello" and row.status.waiting
    ] == []
    assert lab.jobs.registry.unfinished() == []
    assert again.submit(hello()).job_id == run.job_id


def test_a_box_made_anew_may_give_the_same_number_twice(lab, done):
    """The older run gets another folder and keeps its content."""
    folder = lab.workspace.runs / "hello-12345678"
    folder.mkdir()
    (folder / "out.log").write_text("of another life\n")
    record = lab.jobs.registry.all()[0]
    older = lab.jobs.registry.update(record, token="older", name="hello", job_id=12345678,
                                folder=folder.name)  # fmt: skip
    submission._make_room(lab.jobs, folder)
    moved = next(r for r in lab.jobs.registry.all() if r.token == older.token)
    assert not folder.exists()
    assert (lab.workspace.runs / moved.folder / "out.log").read_text() == "of another life\n"


def test_an_sbatch_that_outlives_its_notebook_is_waited_for(lab):
    with lab.workspace.locked() as lock:
        subprocess.Popen(["sleep", "2"], pass_fds=[lock])
    start_s = time.monotonic()
    with lab.workspace.locked():
        assert time.monotonic() - start_s > 1


def test_a_job_that_runs_holds_no_lock(lab):
    lab.submit(shell.recipe("long", "sleep 100"))
    lab.submit(hello())


def test_a_job_taken_though_sbatch_timed_out_is_found_by_its_mark(tmp_path, fake, fake_slurm):
    """`Socket timed out` says nothing about whether the controller took the job."""
    late = 'cat >/dev/null; [ "$1" = --test-only ] || { echo "Socket timed out" >&2; exit 1; }'
    calls = fake_slurm(sbatch=late)
    fields = "44 PENDING JobHeldUser 0:00 - %s hello".replace(" ", "\\037")
    mark = "$(grep -o 'course:[0-9a-f]*' \"$FAKE_CALLS\" | tail -1)"
    fake("squeue", f"printf '{fields}\\n' \"{mark}\"")
    lab = Lab(tmp_path / "w", site="slurm", quiet=True)
    assert lab.submit(hello()).job_id == 44
    assert calls.read_text().count("sbatch --parsable") == 1
    assert "scontrol release 44" in calls.read_text()


def test_when_slurm_cannot_be_asked_nothing_is_submitted(tmp_path, fake, fake_slurm):
    fake_slurm(sbatch='cat >/dev/null; [ "$1" = --test-only ] || kill -9 $$')
    lab = Lab(tmp_path / "w", site="slurm", quiet=True)
    fake("squeue", "exit 1")
    with pytest.raises(SlurmError):
        lab.submit(hello())
    calls = fake_slurm(sbatch="cat >/dev/null; echo 8")
    fake("squeue", "exit 1")
    before = calls.read_text().count("sbatch")
    with pytest.raises(SlurmError):
        lab.submit(hello())
    assert calls.read_text().count("sbatch") == before


def test_a_folder_that_cannot_be_written_is_named(cluster, tmp_path):
    (tmp_path / "w").write_text("a file where a folder should be")
    lab = Lab(tmp_path / "w", site=cluster, quiet=True)
    with pytest.raises(LabError, match=r"cannot write to .*/w \(.*COURSE_WORKSPACE"):
        lab.submit(hello())


def test_the_environment_of_a_job_is_free_of_the_notebook_s(lab, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    monkeypatch.setenv("SLURM_JOB_ID", "999")
    monkeypatch.setenv("SBATCH_JOB_NAME", "other")
    run = lab.submit(shell.recipe("clean-env", 'echo "${MPLBACKEND-none} $SLURM_JOB_NAME"'))
    assert run.wait(PATIENCE_S) == "COMPLETED"
    assert run.text == "none clean-env\n"


def test_a_device_memory_that_a_recipe_chose_reaches_its_processes(lab):
    limit = gpt.recipe("small", device_memory_gib=0.125).environment
    recipe = shell.recipe(
        "limit", "srun printenv COURSE_DEVICE_MEMORY_BYTES", gpus_per_node=1, environment=limit
    )
    run = lab.submit(recipe)
    assert run.wait(PATIENCE_S) == "COMPLETED"
    assert run.text == "134217728\n"


def test_submitting_waits_for_no_lock_of_a_dead_process(lab):
    holder = subprocess.Popen(
        [sys.executable, "-c", "import sys, time\nfrom course_lib.lab.workspace import Workspace\n"
         "from pathlib import Path\nwith Workspace(Path(sys.argv[1])).locked():\n"
         "    print('held', flush=True)\n    time.sleep(60)", str(lab.workspace)],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    holder.stdout.readline()
    holder.kill()
    holder.wait()
    assert lab.submit(hello()).wait(PATIENCE_S) == "COMPLETED"
