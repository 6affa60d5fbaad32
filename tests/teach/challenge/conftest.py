"""A task and a finished run of it, as the lab would have them, without any cluster."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from course_lib.lab.job.script import key, render
from course_lib.lab.queue.records import Record
from course_lib.lab.queue.submission import recipe_toml
from course_lib.teach.challenge import score, text
from course_lib.teach.challenge.score import Judgement
from course_lib.teach.challenge.task import Task

STEPS, BATCH, SECONDS = 40, 16, 20.0
LINE = (
    " iteration {step:8d}/{steps:8d} | consumed samples: {samples:12d} | elapsed time per "
    "iteration (ms): {ms:.1f} | learning rate: 1.0E-03 | global batch size: {batch:5d} | "
    "lm loss: {loss:.6E} |\n"
)


def log_of(loss=4.5, ms=400.0, steps=STEPS, batch=BATCH):
    return "".join(
        LINE.format(step=n, steps=steps, samples=n * batch, ms=ms, batch=batch, loss=loss)
        for n in range(1, steps + 1)
    )


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    monkeypatch.setenv("COURSE_BOX_HOME", str(tmp_path / "box"))
    monkeypatch.delenv("COURSE_BOARD", raising=False)
    return tmp_path


@pytest.fixture
def task(workspace):
    from course_lib.lab.lab import Lab

    lab = Lab(workspace, site="box", quiet=True)
    lab.jobs.__dict__["cluster"] = "here"
    place = text.folder(lab.workspace)
    place.mkdir(parents=True)
    for part in (text.LEARN, text.JUDGE):
        for end in text.ENDS:
            (place / f"{part}{end}").write_text(part + end)
    return Task(lab, 4.7, 24.0, text.prepare(lab))


@pytest.fixture
def judged(task, monkeypatch):
    """The judgement of the weights; a test may change it."""
    said = {"judgement": Judgement(STEPS * BATCH, judged=4.52, error=0.02)}
    monkeypatch.setattr(score, "judge", lambda task, run: said["judgement"])
    return said


@pytest.fixture
def finish(task):
    """Return a successful run of the workspace. `of` may change its recipe before it is
    recorded."""

    def make(name="mine", *, seconds=22, log=None, job_id=12, of=lambda recipe: recipe, **how):
        given = {"micro_batch": BATCH, "iterations": STEPS, "log_interval": 1} | how
        recipe = of(task.recipe(name, task.model(2, 64), seconds=seconds, **given))
        lab = task.lab
        folder = lab.workspace.runs / f"{name}-{job_id}"
        (folder / "checkpoints").mkdir(parents=True)
        (folder / "recipe.toml").write_text(recipe_toml(recipe, lab.site))
        (folder / "job.sbatch").write_text(render(recipe, lab.site).text)
        (folder / "out.log").write_text(log_of() if log is None else log)
        (folder / "exit_code").write_text("0\n")
        final = {"state": "COMPLETED", "exit_code": 0, "elapsed_s": SECONDS, "source": "sacct"}
        record = Record(
            token=f"{job_id:016x}", name=name, key=key(recipe, lab.site), job_id=job_id,
            folder=folder.name, cluster="here", submitted_unix_s=time.time(),
            devices=recipe.devices, released=True,
        )  # fmt: skip
        lab.workspace.records.mkdir(parents=True, exist_ok=True)
        lab.jobs.registry.save(replace(record, final=final))
        return lab.run(job_id)

    return make
