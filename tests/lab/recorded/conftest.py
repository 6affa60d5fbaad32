"""A workspace with runs that have ended, made by hand: no cluster is needed to record them."""

from __future__ import annotations

import gzip
import json
import random
import tarfile
from dataclasses import asdict

import pytest

from course_lib.lab.job.recipes import gpt, program
from course_lib.lab.job.site import preset
from course_lib.lab.queue.records import Record, Registry
from course_lib.lab.queue.slurm import Status
from course_lib.lab.queue.submission import recipe_toml
from course_lib.lab.recorded import pack as packing
from course_lib.lab.recorded.recording import MANIFEST
from course_lib.lab.workspace import Workspace, write_atomically

LOG = "".join(
    f" iteration {n:8d}/ 20 | consumed samples: {8 * n:12d} | "
    f"elapsed time per iteration (ms): 10.0 | global batch size: 8 | lm loss: {9 - n / 10:.6E} |\n"
    for n in range(1, 21)
)
MINE = "print('hello')\n"


class Made:
    """`recipes` by name: `dp4` trains, `slow` is the same on a slower link, `mine` is a program of
    the learner's own."""

    def __init__(self, folder):
        self.workspace = Workspace(folder.resolve())
        self.box = preset("box").but(workspace=str(self.workspace.folder), account="proj_secret_42")
        write_atomically(self.workspace.folder / "work" / "mine.py", MINE)
        self.recipes = {
            "dp4": gpt.recipe("dp4", nodes=2, gpus_per_node=2, iterations=20, profile=True),
            "mine": program.recipe("mine", "work/mine.py"),
        }
        self.add("dp4", 17, LOG)
        self.add("mine", 18, f"hello from {self.workspace.folder}/runs/mine.txt\n")

    def add(self, name, job_id, log, site=None):
        site, recipe = site or self.box, self.recipes[name]
        folder = self.workspace.runs / f"{name}-{job_id}"
        told = {
            "recipe.toml": recipe_toml(recipe, site),
            "job.sbatch": f"#!/bin/bash\n#SBATCH --account={site.account}\n",
            "out.log": log,
            "exit_code": "0\n",
        }
        for file, text in told.items():
            write_atomically(folder / file, text)
        for file in recipe.files:
            write_atomically(folder / "program" / file.split("/")[-1], MINE)
        final = asdict(Status("COMPLETED", exit_code=0, elapsed_s=16.0, nodes="node[1-2]"))
        record = Record(
            token=f"t{job_id}", name=name, key="k", job_id=job_id, folder=folder.name, site="box",
            submitted_unix_s=1.7e9 + job_id, devices=recipe.devices, released=True, final=final,
        )  # fmt: skip
        return Registry(self.workspace).save(record)

    def trace(self, folder, rank, events=10):
        one = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1}
        luck = random.Random(rank)
        more = {"External id": 1, "Ev Idx": 5, "Input type": ["float"] * 20}
        events = [{**one, "ts": n, "dur": luck.random(), "args": more} for n in range(events)]
        table = {"traceName": "/secret", "traceEvents": events}
        path = self.workspace.runs / folder / "profile" / f"rank{rank}.1.pt.trace.json.gz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(json.dumps(table).encode()))
        return path

    def pack(self):
        target = self.workspace.folder / "recordings" / "part.runs"
        runs = packing.sources(self.workspace, Registry(self.workspace).all())
        packing.pack(runs, self.workspace, 3.0, target)
        return target

    @staticmethod
    def parts(file):
        """Manifest, and the other files by name."""
        with tarfile.open(file, "r:xz") as archive:
            content = {one.name: archive.extractfile(one).read() for one in archive}
        return json.loads(content.pop(MANIFEST)), content

    @staticmethod
    def forged(file, manifest, files):
        """Return the recording with different content."""
        file.write_bytes(packing.archive({MANIFEST: json.dumps(manifest).encode()} | files))
        return file


@pytest.fixture
def made(tmp_path) -> Made:
    return Made(tmp_path / "there")
