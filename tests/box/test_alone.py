"""A copy of the box's folder works without the rest of the library."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from course_lib import box as box_room


def test_a_copy_of_the_folder_alone_runs_a_job(box, tmp_path):
    package = tmp_path / "elsewhere" / "course_lib"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    original = Path(box_room.bin_dir()).parent
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(original, package / "box", symlinks=True, ignore=without)
    commands = package / "box" / "bin"
    others = [name for name in box.environment["PATH"].split(":") if name != str(original / "bin")]
    environment = {
        **box.environment,
        "PATH": ":".join([str(commands), *others]),
        "COURSE_BOX_PYTHON": sys.executable,
        "COURSE_BOX_HOME": str(tmp_path / "home"),
    }

    def run(*command: str) -> str:
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("bash", "-c", "command -v sbatch") == f"{commands}/sbatch\n"
    script = "srun --label bash -c 'echo $SLURMD_NODENAME' | sort"
    assert run("sbatch", "--wait", "-N2", "-o", "log", "--wrap", script).startswith("Submitted")
    assert (tmp_path / "log").read_text() == "0: node1\n1: node2\n"
    assert run("squeue", "-h", "-t", "all", "-o", "%T %D") == "COMPLETED 2\n"
    assert run("sacct", "-n", "-P", "-X", "-o", "JobName,State,ExitCode") == "wrap|COMPLETED|0:0\n"
