"""A profiler trace of a device with Tensor Cores, for machines without one. Each of its two steps
has a matmul on Tensor Cores, an addition and an all-reduce."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

DEVICE = {
    "id": 0, "name": "Example GPU", "totalGlobalMem": 16 << 30, "computeMajor": 8,
    "computeMinor": 0, "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,
    "regsPerBlock": 65536, "regsPerMultiprocessor": 65536, "warpSize": 32,
    "sharedMemPerBlock": 49152, "sharedMemPerMultiprocessor": 167936, "numSms": 108,
    "sharedMemPerBlockOptin": 166912,
}  # fmt: skip
KERNELS = (
    ("aten::mm", "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn", 10, 300),
    ("aten::add", "void at::native::vectorized_elementwise_kernel<4, add<float>>", 320, 80),
    ("nccl:all_reduce", "ncclKernel_AllReduce_RING_LL_Sum_half(ncclWorkElem)", 420, 200),
)


def events() -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for step in (1, 2):
        start = 1000 * step
        found.append(_event("user_annotation", f"ProfilerStep#{step}", start, 900, 1, 1))
        for number, (operator, kernel, offset, length) in enumerate(KERNELS):
            correlation = 10 * step + number
            begin = start + 5 + 40 * number
            external = {
                "External id": correlation,
                "Input Dims": [[64, 64]],
                "Input type": ["half"],
            }
            found.append(_event("cpu_op", operator, begin, 35, 1, 1, external))
            launch = {"External id": correlation, "correlation": correlation, "cbid": 211}
            found.append(_event("cuda_runtime", "cudaLaunchKernel", begin + 5, 10, 1, 1, launch))
            facts = {
                **launch, "device": 0, "context": 1, "stream": 7, "grid": [64, 1, 1],
                "block": [256, 1, 1], "registers per thread": 64, "shared memory": 0,
                "blocks per SM": 0.6, "warps per SM": 4.7, "est. achieved occupancy %": 25,
            }  # fmt: skip
            found.append(_event("kernel", kernel, start + 200 + offset, length, 0, 7, facts))
    return found


def _event(category, name, start_us, length_us, process, thread, arguments=None):
    return {
        "ph": "X", "cat": category, "name": name, "pid": process, "tid": thread,
        "ts": start_us, "dur": length_us, "args": arguments or {},
    }  # fmt: skip


def write(path: Path, rank: int, world: int) -> None:
    distributed = {"backend": "nccl", "rank": rank, "world_size": world}
    trace = {
        "schemaVersion": 1,
        "deviceProperties": [DEVICE],
        "distributedInfo": distributed,
        "traceEvents": events(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        json.dump(trace, file)
