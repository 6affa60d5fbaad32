"""The text of the challenge: made once in the workspace, and made anew by who judges."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from course_lib.lab.errors import LabError
from course_lib.lab.workspace import Workspace, programs_folder

if TYPE_CHECKING:
    from course_lib.lab.lab import Lab

LEARN, JUDGE = "learn_text_document", "judge_text_document"
ENDS = (".bin", ".idx")
PATIENCE_S = 600
KNOWN: dict[str, str] = {}
"""The digests of texts that were made in this notebook, by the digest of their sample."""
OF_A_RANK = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_", "MASTER_", "TORCHELASTIC_", "COURSE_RUN")
"""Beginnings of variables by which a program would take itself for a part of a job."""


def folder(workspace: Workspace) -> Path:
    return workspace.folder / "data" / "challenge"


def prepare(lab: Lab) -> str:
    """Makes the text where it is not there yet. Its digest: two workspaces with the same have the
    same challenge."""
    place = folder(lab.workspace)
    if not all((place / f"{part}{end}").is_file() for part in (LEARN, JUDGE) for end in ENDS):
        lab.say(f"preparing the text of the challenge in {place} (once, some seconds)")
        sample = _sample(lab)
        make(sample, place)
        KNOWN[_digest_of([sample])] = digest(place)
    return digest(place)


def _sample(lab: Lab) -> Path:
    """The sample text's documents, made where they are not there."""
    data = Path(lab.site.data or lab.workspace.folder / "data")
    if not (data / "sample.jsonl").is_file():
        start("sample_text.py", "--out", str(data))
    return data / "sample.jsonl"


def make(sample: Path, place: Path) -> None:
    start("challenge/text.py", "--sample", str(sample), "--out", str(place))


def digest(place: Path) -> str:
    """Of both parts; empty where one is missing."""
    return _digest_of(place / f"{part}{end}" for part in (LEARN, JUDGE) for end in ENDS)


def _digest_of(files: Iterable[Path]) -> str:
    total = hashlib.sha256()
    try:
        for file in files:
            total.update(file.read_bytes())
    except OSError:
        return ""
    return total.hexdigest()[:16]


def made_anew(lab: Lab) -> str:
    """The digest that the text must have, whatever lies in the workspace by now."""
    sample = _sample(lab)
    of = _digest_of([sample])
    if of not in KNOWN:
        with tempfile.TemporaryDirectory(prefix="course-challenge-") as place:
            make(sample, Path(place))
            KNOWN[of] = digest(Path(place))
    return KNOWN[of]


def start(program: str, *arguments: str) -> str:
    """Runs a program of the course beside the notebook, and returns what it prints."""
    command = [sys.executable, str(programs_folder() / program), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, env=environment(os.environ), timeout=PATIENCE_S,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{program} was not done after {PATIENCE_S} s") from error
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()[-500:]
        raise LabError(f"{program} failed: {said or f'exit code {done.returncode}'}")
    return done.stdout.decode(errors="replace")


def environment(here: Mapping[str, str]) -> dict[str, str]:
    """Of one process on the processor: a login node may have GPUs that are others' business."""
    kept = {key: value for key, value in here.items() if not key.startswith(OF_A_RANK)}
    return {**kept, "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
