"""Run times of the box's commands, compared with `python -c pass` and a real Slurm's commands.

    python benchmarks/commands.py [rounds]

Each round measures everything in turn, so that a busy machine slows all alike; only the ratios
count. A real Slurm is measured if SLURM_CONF names a running one."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from course_lib.box import bin_dir

WAITING_JOBS = 500
LATER = "--begin=now+1hour"


def elapsed_ms(command: list[str], environment: dict[str, str], folder: str) -> float:
    begin = time.perf_counter()
    done = subprocess.run(
        command,
        env=environment,
        cwd=folder,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    milliseconds = (time.perf_counter() - begin) * 1000
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.decode()}")
    return milliseconds


def fill(home: str) -> None:
    """Fill the box's queue without the cost of 500 submissions."""
    os.environ["COURSE_BOX_HOME"] = home
    from course_lib.box.queue import state

    for number in range(WAITING_JOBS):
        state.submit(
            {
                "name": f"job{number}",
                "user": "bench",
                "partition": "box",
                "begin_s": time.time() + 3600,
                "environment": b"NAME=value\0" * 100,
                "script": b"#!/bin/sh\n" + b"# line\n" * 50,
            }
        )


def real_commands() -> dict[str, list[str]]:
    """Return the real Slurm's commands; empty if none answers."""
    if "SLURM_CONF" not in os.environ or shutil.which("sinfo", path="/usr/bin") is None:
        return {}
    if subprocess.run(["/usr/bin/sinfo", "-h"], capture_output=True, check=False).returncode:
        return {}
    submit = ["/usr/bin/sbatch", "--parsable", LATER, "-J", "course-benchmark", "--wrap", "true"]
    return {
        "sbatch of Slurm": submit,
        "squeue of Slurm": ["/usr/bin/squeue"],
        "sacct of Slurm": ["/usr/bin/sacct"],
    }


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
        fill(home)
        box = {**os.environ, "COURSE_BOX_HOME": home, "COURSE_BOX_WARM": "0"}
        commands = {"python -c pass": [sys.executable, "-c", "pass"]}
        for name, words in (
            ("sbatch", ["sbatch", "--parsable", LATER, "--wrap", "true"]),
            (f"squeue, {WAITING_JOBS} jobs", ["squeue"]),
            ("sinfo", ["sinfo"]),
            (f"sacct, {WAITING_JOBS} jobs", ["sacct"]),
            ("scontrol show hostnames", ["scontrol", "show", "hostnames", "node[1-2]"]),
        ):
            commands[name] = [str(Path(bin_dir()) / words[0]), *words[1:]]
        commands |= real_commands()
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, command in commands.items():
                environment = dict(os.environ) if name.endswith("of Slurm") else box
                times[name].append(elapsed_ms(command, environment, folder))
        scancel = [str(Path(bin_dir()) / "scancel"), "--me"]
        subprocess.run(scancel, env=box, check=False)
        if "sbatch of Slurm" in commands:
            subprocess.run(["/usr/bin/scancel", "-n", "course-benchmark"], check=False)
    base = statistics.median(times["python -c pass"])
    print(f"{'command':<26}{'median ms':>10}{'least ms':>10}{'x python -c pass':>18}")
    for name, found in times.items():
        median = statistics.median(found)
        print(f"{name:<26}{median:>10.1f}{min(found):>10.1f}{median / base:>18.2f}")


if __name__ == "__main__":
    main()
