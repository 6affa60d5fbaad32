"""Time to the first line of a job on the box, compared with a cold start of torchrun.

Four ranks build DDP and print. One side is `sbatch` of a two-node job on the box, from the start of
sbatch to the first line in the job's log. The other side is `torchrun --nproc-per-node=4` of the
same program from a shell. They take turns on the same machine; the ratio of the medians is printed.
Usage: python benchmarks/first_step.py [turns]"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from course_lib import box

PROGRAM = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(8, 8))
print("ready", dist.get_rank(), flush=True)
dist.destroy_process_group()
"""

JOB = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=2 --output=job.log
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun torchrun --nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" \\
    --rdzv-endpoint="$head:29500" program.py
"""

PATIENCE_S = 180.0


def first_line_s(log: Path, begun: float) -> float:
    while time.monotonic() - begun < PATIENCE_S:
        if log.exists() and "ready" in log.read_text(errors="replace"):
            return time.monotonic() - begun
        time.sleep(0.005)
    raise SystemExit(f"no rank printed anything within {PATIENCE_S:.0f} s; see {log}")


def cold_s(folder: Path) -> float:
    log = folder / "cold.log"
    log.unlink(missing_ok=True)
    begun = time.monotonic()
    torchrun = Path(sys.executable).with_name("torchrun")
    with log.open("wb") as file:
        command = [torchrun, "--standalone", "--nproc-per-node=4", "program.py"]
        started = subprocess.Popen(command, cwd=folder, stdout=file, stderr=file)
        seconds = first_line_s(log, begun)
        started.wait(PATIENCE_S)
    return seconds


def box_s(folder: Path, environment: dict[str, str]) -> float:
    log = folder / "job.log"
    log.unlink(missing_ok=True)
    begun = time.monotonic()
    subprocess.run(["sbatch", "job.sh"], cwd=folder, env=environment, check=True, stdout=-3)
    seconds = first_line_s(log, begun)
    while subprocess.check_output(["squeue", "-h", "-t", "R,CG,PD"], env=environment):
        time.sleep(0.1)
    return seconds


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.py").write_text(PROGRAM)
        (folder / "job.sh").write_text(JOB)
        path = f"{box.bin_dir()}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, "COURSE_BOX_HOME": f"{name}/home", "PATH": path}
        environment.pop("COURSE_BOX_WARM", None)
        box_s(folder, environment)  # creates the warm process, like the first job of a day
        while not any((folder / "home").glob("warm-*.sock")):
            time.sleep(0.1)
        pairs = []
        for turn in range(turns):
            pairs.append((cold_s(folder), box_s(folder, environment)))
            cold, warm = pairs[-1]
            print(f"turn {turn + 1}: torchrun cold {cold:.2f} s, sbatch on the box {warm:.2f} s")
        ratio = statistics.median(c for c, _ in pairs) / statistics.median(w for _, w in pairs)
        print(f"ratio of the medians: {ratio:.1f} (wanted: at least 4)")


if __name__ == "__main__":
    main()
