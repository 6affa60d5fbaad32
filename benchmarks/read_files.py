"""Logs and traces of any size for `read.py`, generated from the formats alone."""

from __future__ import annotations

import json
import random
from pathlib import Path

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


# Numbers with many different lengths.
DEEPSPEED = (
    "[default7]: iteration {n:8d}/ 1000000 | consumed samples: {c:12d} | consumed tokens: "
    "{t:12d} | elapsed time per iteration (s): {e:.2f} | learning rate: {r:.3E} | global batch "
    "size: {b:5d} | lm loss: {o:.6E} | grad norm: {g:.3f} | num zeros: {z:.1f} | number of skipped "
    "iterations:   0 | number of nan iterations:   0 | samples per second: {s:.3f} | TFLOPs: "
    "{f:.2f} |\n"
)


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
    """Write a million iteration lines among noise, 1 GB."""
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


# To the next rank in the ring, and to its neighbours in the trees.
STEPS = (1, 16, 64, 128, 256, 512)


def nccl_file(path: Path, scale: float) -> int:
    """Write 500 MB for 1024 ranks on 128 nodes, in 15 communicators of 32 channels."""
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


def trace_file(path: Path, scale: float) -> int:
    """Write eight steps of operators, launches and kernels: 250 bytes per event, 100 MB."""
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
