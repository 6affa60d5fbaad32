"""All-reduce between the box's nodes, compared with the time from the link's bandwidth.

For each bandwidth, a job with one rank on each of two nodes all-reduces a tensor with gloo. Two
ranks send and receive the whole tensor once, so the time is size / bandwidth. A further job has
both ranks on one node. Ratios are printed. Usage: python benchmarks/link.py [Gbit/s …]"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from course_lib import box

PROGRAM = """
import os, sys, time
import torch
import torch.distributed as dist

rank, size_mb, turns = int(os.environ["SLURM_PROCID"]), float(sys.argv[1]), int(sys.argv[2])
os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="node1", MASTER_PORT="29511")
dist.init_process_group("gloo")
tensor = torch.ones(int(size_mb * 1e6 / 4))
dist.all_reduce(tensor)
times = []
for _ in range(turns):
    dist.barrier()
    begun = time.perf_counter()
    dist.all_reduce(tensor)
    times.append(time.perf_counter() - begun)
if rank == 0:
    print("gbit_s", tensor.nbytes * 8 / sorted(times)[len(times) // 2] / 1e9)
dist.destroy_process_group()
"""

SIZE_MB = 25.0
TURNS = 7


def measured_gbit(folder: Path, link_gbit: float, nodes: int) -> float:
    """Return the bandwidth of the all-reduce from its ranks' times."""
    path = f"{box.bin_dir()}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {
        **os.environ,
        "PATH": path,
        "COURSE_BOX_HOME": str(folder / "home"),
        "COURSE_BOX_LINK_GBIT": str(link_gbit),
    }
    command = f"srun -N{nodes} -n2 python program.py {SIZE_MB * min(1.0, link_gbit)} {TURNS}"
    done = subprocess.run(
        ["sbatch", f"-N{nodes}", "-n2", "--wait", "-o", "link.log", "--wrap", command],
        cwd=folder,
        env=environment,
        check=False,
    )
    text = (folder / "link.log").read_text()
    found = re.search(r"gbit_s ([\d.]+)", text)
    if done.returncode or not found:
        raise SystemExit(f"the job failed:\n{text}")
    return float(found[1])


def main() -> None:
    settings = [float(word) for word in sys.argv[1:]] or [0.2, 1.0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.py").write_text(PROGRAM)
        between = {}
        for link_gbit in settings:
            between[link_gbit] = measured_gbit(folder, link_gbit, 2)
            share = between[link_gbit] / link_gbit
            print(f"link of {link_gbit} Gbit/s: all-reduce reaches {share:.2f} of it")
        inside = measured_gbit(folder, 1.0, 1)
        print(f"inside a node: {inside / between.get(1.0, 1.0):.1f} times a link of 1 Gbit/s")


if __name__ == "__main__":
    main()
