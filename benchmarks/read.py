"""Speed of the readers, as ratios to a plain tool on the same file in the same run.

    python benchmarks/read.py                    # all, full size: about 3 GB of files
    python benchmarks/read.py --scale 0.1 nccl   # a tenth, one of training deepspeed nccl trace

The files are generated in a temporary folder, from the formats alone. Both of a pair run in turns;
the ratio of the medians is printed, with the peak memory of the reader's own process."""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from read_files import DEEPSPEED, ITERATION, nccl_file, trace_file, training_file

READ = """
import json, resource, sys, time
from course_lib import read
{warm}
used = lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
start, cpu = time.perf_counter(), used()
found = {call}
seconds, cpu = time.perf_counter() - start, used() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({{"seconds": seconds, "cpu": cpu, "peak_mib": peak, "found": {found}}}))
"""


def read_in_own_process(call: str, found: str, warm: str = "") -> dict[str, float]:
    """Time a reader without imports, which a notebook pays once; its memory includes everything."""
    code = READ.format(call=call, found=found, warm=warm)
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout))


def grep(word: str, path: Path) -> dict[str, float]:
    def used() -> float:
        return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])

    start, cpu = time.perf_counter(), used()
    subprocess.run(["grep", "-c", word, str(path)], stdout=subprocess.PIPE, check=True)
    return {"seconds": time.perf_counter() - start, "cpu": used() - cpu}


def against_grep(name: str, word: str, path: Path, found: str, rounds: int) -> None:
    """Compare a reader with grep; on a shared machine, use the ratio of processor times."""
    warm = "import pandas\nfrom course_lib.read import training_log, nccl"
    call = f"read.{name}({str(path)!r})"
    greps, ours = [], []
    for _ in range(rounds):
        greps.append(grep(word, path))
        ours.append(read_in_own_process(call, found, warm))

    def median(of: list[dict[str, float]], what: str) -> float:
        return statistics.median(item[what] for item in of)

    ratio = median(ours, "seconds") / median(greps, "seconds")
    cpu_ratio = median(ours, "cpu") / median(greps, "cpu")
    print(
        f"{name:12} {path.stat().st_size / 1e6:6.0f} MB, found {ours[0]['found']:>8}: "
        f"{median(ours, 'seconds'):6.2f} s = {ratio:5.2f} × grep -c {word} "
        f"(processor time {cpu_ratio:5.2f} ×), "
        f"peak {max(item['peak_mib'] for item in ours):4.0f} MiB",
        flush=True,
    )


THEIRS = """
import json, logging, resource, time
logging.disable(logging.CRITICAL)
from torch_tb_profiler.profiler.data import RunProfileData
used = lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
start, cpu = time.perf_counter(), used()
found = RunProfileData.parse("worker", "span", {path!r}, {folder!r})
seconds, cpu = time.perf_counter() - start, used() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
costs = found.avg_costs.costs
found = [costs[0], costs[8]]
print(json.dumps({{"seconds": seconds, "cpu": cpu, "peak_mib": peak, "found": found}}))
"""
OURS = "(lambda p: (p.step_time, p.operators, p.kernels, p.overlap, p)[-1])(read.profile({path!r}))"


def against_torch_tb_profiler(path: Path, rounds: int) -> None:
    """Compare steps, operators and kernels of both tools; the totals must agree."""
    warm = "import pandas, msgspec\nfrom course_lib.read import profile"
    found = "[float(found.step_time[n].mean()) for n in ('kernel_us', 'total_us')]"
    theirs, ours = [], []
    for _ in range(rounds):
        code = THEIRS.format(path=str(path), folder=str(path.parent))
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
        theirs.append(json.loads(done.stdout))
        ours.append(read_in_own_process(OURS.format(path=str(path)), found, warm))

    def ratio(what: str) -> float:
        medians = [statistics.median(item[what] for item in of) for of in (theirs, ours)]
        return medians[0] / medians[1]

    same = all(abs(a - b) < 0.1 for a, b in zip(theirs[0]["found"], ours[0]["found"], strict=True))
    totals = "agree" if same else "DIFFER"
    print(
        f"profile      {path.stat().st_size / 1e6:6.0f} MB, totals {totals}: "
        f"{statistics.median(item['seconds'] for item in ours):6.2f} s = "
        f"{ratio('seconds'):5.2f} times faster than torch-tb-profiler "
        f"(processor time {ratio('cpu'):5.2f} times), "
        f"peak {max(item['peak_mib'] for item in ours):4.0f} MiB against "
        f"{max(item['peak_mib'] for item in theirs):4.0f} MiB",
        flush=True,
    )


KINDS = ["training", "deepspeed", "nccl", "trace"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", nargs="*", default=KINDS)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        for name, form in (("training", ITERATION), ("deepspeed", DEEPSPEED)):
            if name in args.which:
                path = Path(folder) / f"{name}.log"
                training_file(path, args.scale, form)
                found = "len(found.iterations)"
                against_grep("training_log", "iteration", path, found, args.rounds)
                path.unlink()
        if "nccl" in args.which:
            path = Path(folder) / "nccl.log"
            nccl_file(path, args.scale)
            against_grep("nccl", "Channel", path, "len(found.channels)", args.rounds)
            path.unlink()
        if "trace" in args.which:
            path = Path(folder) / "rank0.pt.trace.json"
            trace_file(path, args.scale)
            against_torch_tb_profiler(path, args.rounds)


if __name__ == "__main__":
    main()
