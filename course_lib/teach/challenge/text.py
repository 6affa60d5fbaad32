"""Text of the challenge, created once per workspace."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from course_lib.lab.errors import LabError
from course_lib.lab.workspace import Workspace, programs_folder
from course_lib.words import _

if TYPE_CHECKING:
    from course_lib.lab.lab import Lab

LEARN, JUDGE = "learn_text_document", "judge_text_document"
ENDS = (".bin", ".idx")
PATIENCE_S = 600
# Prefixes of variables that would make a program think it is part of a job.
OF_A_RANK = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_", "MASTER_", "TORCHELASTIC_", "COURSE_RUN")


def folder(workspace: Workspace) -> Path:
    return workspace.folder / "data" / "challenge"


def prepare(lab: Lab) -> str:
    """Create the text if it is missing, and return its digest. Equal digests mean equal tasks."""
    place = folder(lab.workspace)
    files = [place / f"{part}{end}" for part in (LEARN, JUDGE) for end in ENDS]
    if not all(file.is_file() for file in files):
        lab.say(
            _("preparing the text of the challenge in {place} (once, a few seconds)", place=place)
        )
        start("challenge/text.py", "--sample", str(_sample(lab)), "--out", str(place))
    total = hashlib.sha256()
    for file in files:
        total.update(file.read_bytes())
    return total.hexdigest()[:16]


def _sample(lab: Lab) -> Path:
    """Return the sample documents; create them if they are missing."""
    data = Path(lab.site.data or lab.workspace.folder / "data")
    if not (data / "sample.jsonl").is_file():
        start("sample_text.py", "--out", str(data))
    return data / "sample.jsonl"


def start(program: str, *arguments: str) -> str:
    """Run a program of the course on the notebook's machine, and return its output."""
    command = [sys.executable, str(programs_folder() / program), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, env=environment(os.environ), timeout=PATIENCE_S,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise LabError(
            _("{program} still ran after {patience_s} s", program=program, patience_s=PATIENCE_S)
        ) from error
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()[-500:]
        raise LabError(
            _(
                "{program} failed: {value}",
                program=program,
                value=said or _("exit code {returncode}", returncode=done.returncode),
            )
        )
    return done.stdout.decode(errors="replace")


def environment(here: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for one process that leaves a login node's GPUs to others."""
    kept = {key: value for key, value in here.items() if not key.startswith(OF_A_RANK)}
    return {**kept, "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
