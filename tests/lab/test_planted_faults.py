"""Each planted fault is recognised, named with rank and node, and leaves no processes or files."""

from __future__ import annotations

import os
import re
import time

import pytest

from course_lib import read
from course_lib.lab import mysteries
from course_lib.lab.job.recipes import fault
from course_lib.lab.lab import Lab
from course_lib.lab.queue.slurm import expand_hosts

PATIENCE_S = 150
NODE_OF = ("first", "first", "second", "second")
# Fault, what the log says of it, and the rank that has it.
FAILS = {
    "stuck": ("stayed_away", 2),
    "skipped": ("stayed_away", 2),
    "shape": ("collective_mismatch", 2),
    "hoard": ("device_limit", 2),
    "killed": ("killed", 2),
    "wrong-port": ("rendezvous_timeout", 2),
    "bad-name": ("rendezvous_timeout", 2),
    "port-taken": ("port_in_use", 0),
    "bad-sample": ("nan_loss", 2),
    "disk-full": ("file_system", 0),
    "killed-saving": ("killed", 2),
}
OF_A_NODE = {
    "node-dies": "killed",
    "wrong-master": "rendezvous_timeout",
    "missing-module": "missing_module",
    "old-module": "other_module",
}
OF_NOBODY = {"exploding": "nan_loss", "no-internet": "no_internet", "fp16": "loss_scale"}
EVERYBODY = (0, 1, 2, 3)
SILENT = {
    "same-data": ("same_samples", None),
    "unequal-weights": ("weights", 2),
    "same-dropout": ("same_random", None),
    "same-order": ("same_order", None),
    "slow-rank": ("slow", 2),
    "leak": ("memory", 2),
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return tmp_path_factory.mktemp("faults")


@pytest.fixture
def broken(cluster, workspace, monkeypatch):
    """`broken("stuck")` is the finished run with this fault."""
    monkeypatch.setenv("COURSE_BOX_WARM", "1")  # each of them starts torch on four ranks
    lab = Lab(workspace, site=cluster, quiet=True)

    def make(name, **more):
        blind = name in mysteries.KINDS and not more  # as learners meet it
        sealed = mysteries.seal(f"{name}:2:4")
        recipe = (
            fault.recipe(f"blind-{name}", planted_fault=sealed, **mysteries.ALIKE)
            if blind
            else fault.recipe(name or "healthy", name, **more)
        )
        run = lab.submit(recipe)
        run.wait(PATIENCE_S)
        return run

    yield make
    wait_for_no_jobs(lab)


def wait_for_no_jobs(lab):
    end_s = time.monotonic() + 20
    while open_jobs(lab) and time.monotonic() < end_s:
        time.sleep(0.5)
    assert not open_jobs(lab), "a broken run has left a job"


def open_jobs(lab):
    return [row for row in lab.jobs.slurm.queue() if not row.status.ended]


def node_of(run, rank):
    names = [str(name) for name in expand_hosts(run.status.nodes)]
    return names[rank // 2] if len(names) == 2 else None


@pytest.mark.many(2)
@pytest.mark.parametrize("name", FAILS)
def test_the_log_names_the_cause_and_not_its_cascade(broken, name):
    run = broken(name)
    cause, rank = FAILS[name]
    assert not run.ok
    found = run.failure
    assert (found.cause, found.rank, found.ranks) == (cause, rank, (rank,)), run.text[-3000:]
    assert found.node == node_of(run, rank)


@pytest.mark.many(2)
@pytest.mark.parametrize("name", OF_A_NODE)
def test_what_a_node_has_is_found_on_one_of_its_ranks(broken, name):
    run = broken(name)
    found = run.failure
    assert found.cause == OF_A_NODE[name], run.text[-3000:]
    assert found.rank in (2, 3)
    assert found.node == node_of(run, 2)


@pytest.mark.parametrize("name", OF_NOBODY)
def test_what_all_have_alike(broken, name):
    run = broken(name)
    assert (run.failure.cause, run.failure.ranks) == (OF_NOBODY[name], EVERYBODY), run.text[-3000:]


def test_losses_that_explode_have_no_rank_in_the_diary(broken):
    assert [(one.kind, one.rank) for one in broken("exploding").diary.findings] == [
        ("diverged", None)
    ]


@pytest.mark.many(2)
@pytest.mark.parametrize("name", SILENT)
def test_what_ends_no_run_stands_in_the_diary(broken, name):
    run = broken(name)
    kind, rank = SILENT[name]
    assert run.ok
    assert run.failure is None
    assert [(found.kind, found.rank) for found in run.diary.findings] == [(kind, rank)]


def test_a_step_that_was_left_out_stands_in_the_diary(broken):
    found = {one.kind: (one.rank, one.iteration) for one in broken("skipped").diary.findings}
    assert found["skipped"] == (2, 4)


def test_a_leak_that_goes_on_ends_at_the_limit(broken):
    found = broken("leak", iterations=40).failure
    assert (found.cause, found.ranks) == ("device_limit", (2,))


def test_of_a_healthy_run_there_is_nothing_to_say(broken):
    run = broken("")
    assert run.ok
    assert (run.failure, run.diary.findings) == (None, [])


def test_detail_names_each_rank_with_its_call(broken):
    run = broken("extra", environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})
    assert run.failure.cause == "collective_mismatch"
    assert run.failure.details["odd_rank"] == 2


def test_a_hang_ends_with_detail_too(broken):
    run = broken("stuck", environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})
    assert (run.status.state, run.failure.rank) == ("FAILED", 2), run.text[-3000:]


def test_a_damaged_checkpoint_is_passed_over(broken):
    damaged = broken("damaged", iteration=9)
    assert damaged.ok
    after = broken("", load=str(damaged.folder / "checkpoints"), iterations=11)
    assert after.ok
    assert int(after.log.iterations["iteration"].iloc[0]) == 7
    assert "WARNING" in after.text


def test_every_fault_of_the_program_has_a_recipe_and_is_tried(repository):
    text = (repository / "code/faults/plant.py").read_text()
    names = set(re.findall(r'^    "([a-z-]+)": \w+\.\w+,$', text, re.MULTILINE))
    tried = {*FAILS, *OF_A_NODE, *OF_NOBODY, *SILENT, "extra", "damaged"}
    assert names - {"mortal"} | {"fp16"} == set(fault.FAULTS)
    assert tried == set(fault.FAULTS)


def test_stacks_of_a_job_that_hangs(broken, cluster, workspace, tmp_path, monkeypatch):
    other = tmp_path / "elsewhere" / "python"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 7\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{other.parent}:{os.environ['PATH']}")  # none of the job's
    for name, value in {"SLURM_JOB_ID": "77", "SLURM_NTASKS": "1", "SLURM_NNODES": "1"}.items():
        monkeypatch.setenv(name, value)  # a notebook that is itself within a job
    lab = Lab(workspace, site=cluster, quiet=True)
    recipe = fault.recipe("hang", "stuck", distributed_timeout_seconds_after_init=100)
    run = lab.submit(recipe, again=True)
    diary = run.paths.diary / "rank2.jsonl"
    end_s = time.monotonic() + 60
    while (not diary.exists() or diary.read_text().count("\n") < 4) and time.monotonic() < end_s:
        time.sleep(0.2)
    time.sleep(1)
    found = lab.stacks(run)
    run.cancel()
    assert run.wait(60) == "CANCELLED"
    [odd] = found.odd
    assert (odd.rank, odd.node) == (2, node_of(run, 2))
    assert "wait_for_batch" in odd.place
    assert {stack.collective for stack in found.ranks} == {"", "all_reduce"}


def test_a_job_thrown_out_again_and_again_ends_with_the_losses_of_one_that_was_not(
    cluster, workspace, monkeypatch
):
    monkeypatch.setenv("COURSE_BOX_WARM", "1")
    lab = Lab(workspace, site=cluster, quiet=True)
    habits = {"iterations": 40, "save": True, "save_interval": 1000, "exit_signal_handler": True}
    plain = lab.submit(fault.recipe("plain", **habits))
    thrown = fault.recipe("thrown", load="{run}/checkpoints", directives={"open-mode": "append"},
                          **habits)  # fmt: skip
    run = lab.submit(thrown)
    for step in (6, 18, 30):
        end_s = time.monotonic() + 90
        while f"iteration {step:8d}/" not in run.text and time.monotonic() < end_s:
            time.sleep(0.05)
        lab.jobs.slurm.call("scontrol", "requeue", str(run.job_id))
    assert run.wait(PATIENCE_S) == "COMPLETED"
    assert plain.wait(PATIENCE_S) == "COMPLETED"
    lives = run.log.iterations
    assert lives["iteration"].tolist() == list(range(1, 41))
    assert lives["lm_loss"].tolist() == plain.log.iterations["lm_loss"].tolist()


@pytest.mark.many(2)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_job_whose_nodes_die_at_random_ends_with_the_losses_of_one_whose_nodes_live(
    cluster, workspace, monkeypatch, seed
):
    """A run that saves every fourth step and is killed every four seconds on average."""
    monkeypatch.setenv("COURSE_BOX_WARM", "1")
    lab = Lab(workspace, site=cluster, quiet=True)
    habits = {"iterations": 40, "save_interval": 4, "programs": lab.site.programs}
    quiet = lab.submit(fault.restarts("lives", mean_s=0, **habits))
    mortal = lab.submit(fault.restarts(f"dies-{seed}", mean_s=4, seed=seed, attempts=40, **habits))
    for run in (quiet, mortal):
        assert run.wait(PATIENCE_S + 60) == "COMPLETED", run.text[-2000:]
    assert "using world size: 4," in mortal.text
    told = [run.log.iterations.drop_duplicates("iteration", keep="last") for run in (quiet, mortal)]
    assert [table["iteration"].max() for table in told] == [40, 40]
    losses = [table.set_index("iteration")["lm_loss"].to_dict() for table in told]
    assert losses[0] == losses[1]
    assert read.attempts(mortal.log_file).finished
