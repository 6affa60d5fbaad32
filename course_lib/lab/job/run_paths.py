"""The names of everything in the folder of a run, once for all who write or read there."""

from __future__ import annotations

from pathlib import Path

from course_lib.lab.plain_files import plain

PROGRAM = "program"
"""Name of the folder with the learner's own files, in that of a run."""


def folder_name(name: str, job_id: object) -> str:
    """Of the folder below `runs/`; `job_id` may be what stands for a number not known yet."""
    return f"{name}-{job_id}"


class RunPaths:
    """What lies where in one run's folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.recipe = folder / "recipe.toml"  # what was asked
        self.script = folder / "job.sbatch"  # what was submitted
        self.log = folder / "out.log"  # what was printed
        self.program = folder / PROGRAM  # files of the learner's own, as they were submitted
        self.verdict = folder / "verdict"  # what a trial found, by rank
        self.exit_code = folder / "exit_code"  # written by the trap of the script
        self.tensorboard = folder / "tensorboard"
        self.profile = folder / "profile"
        self.memory = folder / "memory"
        self.snapshots = folder / "snapshots"
        self.links = folder / "links.json"
        self.diary = folder / "diary"  # what every rank wrote down each step
        self.flight = folder / "flight"  # the last collectives of each rank, where it failed
        self.stacks = folder / "stacks"  # where every rank was when it was asked
        self.monitor = folder / "monitor"
        self.checkpoints = folder / "checkpoints"

    @classmethod
    def of(cls, runs: Path, name: str, job_id: object) -> RunPaths:
        return cls(runs / folder_name(name, job_id))

    @property
    def proofs(self) -> tuple[Path, ...]:
        """By these the course knows that the run is its own, and how it ended."""
        return (self.recipe, self.script, self.exit_code)

    def read_exit_code(self) -> int | None:
        """None as long as the file is missing, or empty because the disk was full."""
        try:
            text = plain(self.exit_code).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return None
        return int(text) if text.isdecimal() else None
