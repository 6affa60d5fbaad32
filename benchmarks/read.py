"""How fast the readers are, as ratios to a plain tool on the same file in the same run.

    python benchmarks/read.py                    # all, full size: about 3 GB of files
    python benchmarks/read.py --scale 0.1 nccl   # a tenth, one of training deepspeed nccl trace

The files are generated in a temporary folder, from the formats alone. Each pair is run in turns;
the ratio of the medians is printed, with the peak memory of the reader's own process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

NOISE = (
    "{r}: [default{l}]:[rank{r}]:[W414 20:16:13.{n} ProcessGroupNCCL.cpp:927] Warning: the "
    "variable is deprecated (function operator())\n",
    "node{k}:{p}:{t} [{l}] NCCL INFO Channel {c:02d}/0 : {r}[{l}] -> {s}[{m}] via P2P/CUMEM\n",
    "time (ms) | forward: {n}.42 | backward: 903.02 | optimizer: {r}.17 | batch generator: 3.9\n",
    "INFO:root:saving to /scratch/project/run/{n}/logs, {k} files, {r} folders\n",
    "/opt/venv/lib/python3.12/site-packages/torch/utils/checkpoint.py:{n}: UserWarning: none of "
    "the inputs have requires_grad=True\n",
    "wandb: step {n} of shard {r} written to disk by worker {l}\n",
)
ITERATION = (
    " [2026-04-15 11:{m:02d}:{s:02d}.{u:06d}] iteration {n:8d}/ 1000000 | consumed samples: "
    "{c:12d} | elapsed time per iteration (ms): {e:.1f} | throughput per GPU (TFLOP/s/GPU): "
    "{f:.1f} | learning rate: {r:.6E} | global batch size: {b:5d} | lm loss: {o:.6E} | loss "
    "scale: 1.0 | grad norm: {g:.3f} | number of skipped iterations:   0 | number of nan "
    "iterations:   0 |\n"
)


DEEPSPEED = (
    "[default7]: iteration {n:8d}/ 1000000 | consumed samples: {c:12d} | consumed tokens: "
    "{t:12d} | elapsed time per iteration (s): {e:.2f} | learning rate: {r:.3E} | global batch "
    "size: {b:5d} | lm loss: {o:.6E} | grad norm: {g:.3f} | num zeros: {z:.1f} | number of skipped "
    "iterations:   0 | number of nan iterations:   0 | samples per second: {s:.3f} | TFLOPs: "
    "{f:.2f} |\n"
)
"""Numbers of many lengths."""


def noise_lines(random_: random.Random, count: int = 20_000) -> list[str]:
    return [
        random_.choice(NOISE).format(
            r=random_.randrange(64),
            l=random_.randrange(8),
            n=random_.randrange(10**6),
            k=random_.randrange(100),
            p=random_.randrange(10**5),
            t=random_.randrange(10**5),
            c=random_.randrange(32),
            s=random_.randrange(64),
            m=random_.randrange(8),
        )
        for _ in range(count)
    ]


def training_file(path: Path, scale: float, form: str = ITERATION) -> int:
    """A million iteration lines among noise make 1 GB."""
    random_ = random.Random(1)
    noise = noise_lines(random_)
    iterations = int(1_000_000 * scale)
    wide = random_.lognormvariate
    with path.open("w") as file:
        file.write("using world size: 64, data-parallel-size: 8, tensor-model-parallel size: 8\n")
        for n in range(1, iterations + 1):
            file.write(
                form.format(
                    m=n // 60 % 60, s=n % 60, u=n, n=n, c=80 * n, b=80, t=163840 * n,
                    e=900 + 200 * random_.random() if form == ITERATION else wide(2, 0.8),
                    f=90 + 20 * random_.random(), r=1e-4 * random_.random(),
                    o=12 * random_.random(), g=wide(0, 1.2), z=wide(8, 2),
                )
            )  # fmt: skip
            file.write("".join(random_.sample(noise, 6)))
    return iterations


STEPS = (1, 16, 64, 128, 256, 512)
"""To the next rank in the ring, and to those in the trees."""


def nccl_file(path: Path, scale: float) -> int:
    """1024 ranks on 128 nodes, in 15 communicators of 32 channels, make 500 MB."""
    ranks, channels = 1024, 32
    with path.open("w") as file:
        for communicator in range(max(1, round(15 * scale))):
            for rank in range(ranks):
                file.write(_one_rank(communicator, rank, ranks, channels))
    return ranks


def _one_rank(communicator: int, rank: int, ranks: int, channels: int) -> str:
    head = f"node{rank // 8:03d}:{40000 + rank}:{90000 + rank} [{rank % 8}] NCCL INFO"
    comm = (
        f"{head} ncclCommInitRank comm 0x5f{communicator:02x}{rank:06x} rank {rank} nranks {ranks} "
        f"cudaDev {rank % 8} nvmlDev {rank % 8} busId {rank % 8 + 1}7000 commId "
        f"0x70fba02a8d31{communicator:04x}"
    )
    lines = [f"{comm} - Init START", f"{head} Using network IB"]
    for step in STEPS:
        for word, peer in (("send", (rank + step) % ranks), ("receive", (rank - step) % ranks)):
            near = peer // 8 == rank // 8
            via = "via P2P/CUMEM/read" if near else f"[{word}] via NET/IB/{rank % 8}/GDRDMA"
            a, b = (rank, peer) if word == "send" or near else (peer, rank)
            link = f"{a}[{a % 8}] -> {b}[{b % 8}] {via}"
            lines += [f"{head} Channel {channel:02d}/0 : {link}" for channel in range(channels)]
    lines += [f"{head} Connected all rings", f"{comm} - Init COMPLETE", ""]
    return "\n".join(lines)


READ = """
import json, resource, sys, time
from course_lib import read
{warm}
all_of_us = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
used = lambda: sum(sum(resource.getrusage(who)[:2]) for who in all_of_us)
start, cpu = time.perf_counter(), used()
found = {call}
seconds, cpu = time.perf_counter() - start, used() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({{"seconds": seconds, "cpu": cpu, "peak_mib": peak, "found": {found}}}))
"""


def read_in_own_process(call: str, found: str, warm: str = "") -> dict[str, float]:
    """Imports are not counted, as a notebook pays for them once; memory is counted as a whole:
    what the process and those that it starts hold at the same time."""
    code = READ.format(call=call, found=found, warm=warm)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        held_mib = 0.0
        while process.poll() is None:
            held_mib = max(held_mib, _held_mib(psutil.Process(process.pid)))
            time.sleep(0.05)
        assert process.stdout is not None
        found_there = dict(json.loads(process.stdout.read()))
    found_there["peak_mib"] = max(found_there["peak_mib"], held_mib)
    return found_there


def _held_mib(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        family = [process, *process.children(recursive=True)]
        return sum(one.memory_info().rss for one in family) / (1 << 20)
    return 0.0


def grep(word: str, path: Path) -> dict[str, float]:
    def used() -> float:
        return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])

    start, cpu = time.perf_counter(), used()
    subprocess.run(["grep", "-c", word, str(path)], stdout=subprocess.PIPE, check=True)
    return {"seconds": time.perf_counter() - start, "cpu": used() - cpu}


def against_grep(name: str, word: str, path: Path, found: str, rounds: int) -> None:
    """The ratio of processor times is the one to trust on a machine that others use too."""
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


def trace_file(path: Path, scale: float) -> int:
    """Eight steps of operators, launches and kernels: 250 bytes an event make 100 MB."""
    random_ = random.Random(1)
    names = ["aten::mm", "aten::add", "aten::gelu", "aten::layer_norm", "aten::copy_"]
    events, now, number = [], 1_700_000_000_000_000.0, 0
    for step in range(8):
        begun = now
        for _ in range(int(15_000 * scale)):
            number += 1
            name = random_.choice(names)
            outer, inner = 20 + random_.random(), 8 + random_.random()
            events += [
                _event("cpu_op", name, 77, 77, now, outer, {"External id": 2 * number}),
                _event("cpu_op", f"{name}_", 77, 77, now + 2, inner,
                       {"External id": 2 * number + 1}),
                _event("cuda_runtime", "cudaLaunchKernel", 77, 77, now + 4, 3.0,
                       {"External id": 2 * number + 1, "cbid": 211, "correlation": number}),
                _event("kernel", f"void kernel_of_{name[6:]}<float, 4>(float*, float*)", 0, 7,
                       now + 9, 11 * random_.random(),
                       {"External id": 2 * number + 1, "queued": 0, "device": 0, "context": 1,
                        "stream": 7, "correlation": number, "grid": [128, 1, 1],
                        "block": [256, 1, 1], "est. achieved occupancy %": 50}),
            ]  # fmt: skip
            now += 25
        events.append(
            _event("user_annotation", f"ProfilerStep#{step}", 77, 77, begun, now - begun, {})
        )
    head = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8}}
    text = json.dumps(head)[:-1] + ', "traceEvents": [\n' + ",\n".join(events) + "\n]}\n"
    return path.write_text(text)


def _event(category: str, name: str, *numbers: float | dict[str, object]) -> str:
    process, thread, start, duration, arguments = numbers
    event = {"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread,
             "ts": start, "dur": duration, "args": arguments}  # fmt: skip
    return json.dumps(event)


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
    """Both work out steps, operators and kernels; the totals must agree."""
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
