"""Small files of every kind, to be damaged."""

from __future__ import annotations

from typing import Any

ITERATION = (
    " [2026-04-15 11:{m:02d}:07.250000] iteration {n:8d}/     500 | consumed samples: {c:12d} | "
    "elapsed time per iteration (ms): {e:.1f} | throughput per GPU (TFLOP/s/GPU): 101.3 | learning "
    "rate: 1.500000E-04 | global batch size: 8 | lm loss: {e:.6E} | loss scale: 65536.0 | grad "
    "norm: 1.034 | num zeros: 0.0 | number of skipped iterations: 0 | number of nan iterations: 0 |"
)
TRAINING = "\n".join(
    [
        "using world size: 8, data-parallel size: 2, context-parallel size: 1 "
        "tensor-model-parallel size: 2, pipeline-model-parallel size: 2",
        "------------------------ arguments ------------------------",
        "  hidden_size ..................................... 1024",
        "-------------------- end of arguments ---------------------",
        "setting number of micro-batches to constant 4",
        " > number of parameters on (tensor, pipeline) model parallel rank (1, 0): 12345678",
        " > number of parameters on (tensor, gtp_weight_remat, pipeline) model parallel rank "
        "(1, 0, 1): 12345678",
        *(ITERATION.format(m=n, n=n, c=8 * n, e=1000 / n) for n in range(1, 5)),
        "[Rank 1] (after 2 iterations) memory (MB) | allocated: 1.5 | max allocated: 2.5 | "
        "reserved: 3.5 | max reserved: 4.5",
        "(min, max) time across ranks (ms):",
        "    forward-backward ...............................: (100.25, 101.75)",
        " validation loss at iteration 4 | lm loss value: 7.1E+00 | lm loss PPL: 1.2E+03 | ",
        "[deepspeed] OVERFLOW! Rank 3 Skipping step. Attempted loss scale: 65536.0, reducing to "
        "32768.0",
        "9: [default3]: iteration 5/ 500 | elapsed time per iteration (s): 1.25 | TFLOPs: 12.5 |",
        "Training epoch 0, iteration 5/99 | lr: 1e-05 | global_step: 5 | reduced_train_loss: 11.0 |"
        " train_step_timing in s: 3.5 | consumed_samples: 48",
    ]
)
NCCL = "\n".join(
    [
        "n1:11:12 [0] NCCL INFO NCCL version 2.21.5+cuda12.4",
        "n1:11:12 [0] NCCL INFO NCCL_DEBUG set by environment to INFO.",
        "n1:11:12 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>",
        "n1:11:12 [0] NCCL INFO Using network IB",
        "n1:11:12 [0] NCCL INFO ncclCommInitRank comm 0x55d rank 0 nranks 4 cudaDev 0 nvmlDev 0 "
        "busId 7000 commId 0xabc - Init START",
        "n1:11:12 [0] NCCL INFO Channel 00/04 :    0   1   2   3",
        "n1:11:12 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->2",
        "n1:11:12 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read",
        "n1:11:12 [0] NCCL INFO Channel 01/0 : 3[3] -> 0[0] [receive] via NET/IB/0/GDRDMA",
        "n1:11:12 [0] NCCL INFO Channel 00 : 0[7000] -> 1[8000] via SHM/direct/direct",
        "n1:11:12 [0] NCCL INFO Ring 00 : 1 -> 0 [receive] via NET/Socket/0",
        "n1:11:12 [0] NCCL INFO 4 coll channels, 0 collnet channels, 2 nvls channels, 4 p2p "
        "channels, 2 p2p channels per peer",
        "n1:11:12 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo 1 proto 2 time 41.5",
        "n1:11:12 [0] NCCL INFO comm 0x55d rank 0 nranks 4 cudaDev 0 busId 7000 - Init COMPLETE",
        "n1:11:12 [0] socket.cc:540 NCCL WARN Net : Connection closed by remote peer n2<55>",
        "#       size         count      type   redop    root     time   algbw   busbw #wrong",
        "     1048576        262144     float     sum      -1    50.5   20.7   31.1      0",
        "# Avg bus bandwidth    : 31.1",
    ]
)
FAILURE = "\n".join(
    [
        "[rank3]: Traceback (most recent call last):",
        '[rank3]:   File "train.py", line 12, in <module>',
        "[rank3]:     main()",
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 "
        "has a total capacity of 39.39 GiB of which 1.10 GiB is free. Of the allocated memory "
        "36.00 GiB is allocated by PyTorch, and 1.50 GiB is reserved by PyTorch but unallocated.",
        "slurmstepd: error: *** STEP 77.0 ON n2 CANCELLED AT 2026-04-15T10:00:00 DUE TO TIME LIMIT",
        "[rank1]:[E415 10:00:00.1 ProcessGroupNCCL.cpp:600] [Rank 1] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
        "Timeout(ms)=600000) ran for 600011 milliseconds before timing out.",
        "RuntimeError: [1] is setting up NCCL communicator: Connection reset by peer",
        "ModuleNotFoundError: No module named 'apex'",
        "Root Cause (first observed failure):",
        "  host      : n1", "  rank      : 3 (local_rank: 3)", "  exitcode  : 1 (pid: 55)",
        "srun: error: n1: tasks 0-3,7: Exited with exit code 1",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks",
    ]
)  # fmt: skip
COURSE_MEMORY: list[Any] = [
    {"format": "course-memory-1", "rank": 0, "world_size": 2, "node": "n1", "device": "cpu",
     "limit_bytes": 10**9, "start_unix_ns": 17 * 10**17, "categories": ["parameters", "temporary"],
     "layout": {"tensor": 2}, "note": ""},
    ["alloc", 0, 1, 4096, 0], ["begin", 1.5, "forward", 1, 0], ["alloc", 2.5, 2, 512, 1],
    ["begin", 2.75, "communication", 1, None], ["end", 2.8, "communication", 1, None],
    ["free", 3.0, 2], ["level", 3.5, 4096], ["end", 4.0, "forward", 1, 0], ["free", 9, 1],
]  # fmt: skip


def _span(category: str, name: str, begin: float, length: float, **arguments: Any) -> Any:
    thread = 7 if category == "kernel" else 77
    return {"ph": "X", "cat": category, "name": name, "pid": 0 if thread == 7 else 9,
            "tid": thread, "ts": begin, "dur": length, "args": arguments}  # fmt: skip


TRACE: dict[str, Any] = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "A", "totalGlobalMem": 10**10, "computeMajor": 8}],
    "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2},
    "traceEvents": [
        _span("user_annotation", "ProfilerStep#3", 0, 100),
        _span("cpu_op", "aten::mm", 5, 20, **{"External id": 1, "Input Dims": [[2, 3], [3, 4]]}),
        _span("cuda_runtime", "cudaLaunchKernel", 10, 5, **{"External id": 1, "correlation": 4}),
        _span("kernel", "ampere_s16816gemm", 20, 30,
              **{"External id": 1, "correlation": 4, "device": 0, "stream": 7,
                 "blocks per SM": 2.0, "est. achieved occupancy %": 40}),
        _span("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 40, 30,
              **{"correlation": 5, "device": 0, "stream": 20, "In msg nelems": 10, "dtype": "Float",
                 "Collective name": "allreduce", "Group size": 2}),
        {"ph": "i", "s": "t", "name": "[memory]", "pid": 9, "tid": 77, "ts": 12.5,
         "args": {"Device Type": 1, "Device Id": 0, "Addr": 4096, "Bytes": 512,
                  "Total Allocated": 2048, "Total Reserved": 4096}},
        {"ph": "i", "s": "t", "name": "[memory]", "pid": 9, "tid": 77, "ts": 30.5,
         "args": {"Device Type": 1, "Device Id": 0, "Addr": 4096, "Bytes": -512,
                  "Total Allocated": 1536, "Total Reserved": 4096}},
        {"ph": "s", "id": 4, "pid": 9, "tid": 77, "ts": 10, "cat": "ac2g", "name": "ac2g"},
    ],
}  # fmt: skip
SNAPSHOT: dict[str, Any] = {
    "segments": [
        {"device": 0, "address": 4096, "total_size": 2048, "allocated_size": 512, "stream": 0,
         "segment_type": "small", "active_size": 512,
         "blocks": [{"size": 512, "state": "active_allocated", "address": 4096,
                     "frames": [{"filename": "a.py", "line": 3, "name": "f"}]},
                    {"size": 1536, "state": "inactive", "address": 4608}]},
    ],
    "device_traces": [[
        {"action": "segment_alloc", "addr": 4096, "size": 2048, "stream": 0, "time_us": 10},
        {"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "time_us": 11,
         "frames": [{"filename": "a.py", "line": 3, "name": "f"}]},
        {"action": "free_requested", "addr": 4096, "size": 512, "stream": 0, "time_us": 12},
        {"action": "free_completed", "addr": 4096, "size": 512, "stream": 0, "time_us": 13},
        {"action": "oom", "device_free": 5, "size": 10**9, "stream": 0, "time_us": 14},
    ]],
}  # fmt: skip
TIMELINE: list[Any] = [
    [5000, 0, [0, 1], 4096],
    [6000, 2, [3, 0], 512],
    [7000, 1, [1, 0], 4096],
    [8000, 3, [3, 0], 512],
]
LINKS: dict[str, Any] = {
    "format": "course-links-1", "backend": "gloo", "device": "cpu", "world_size": 2,
    "ranks": [{"rank": 0, "node": "n1", "device": "cpu", "pid": 5, "pace": 3.0},
              {"rank": 1, "node": "n2", "device": "cpu", "pid": 6}],
    "samples": [
        {"kind": kind, "source": 0, "destination": 1, "size_bytes": size, "repeat": 0,
         "time_us": 10 + size / 100}
        for kind in ("point_to_point", "all_reduce") for size in (1024, 65536)
    ],
    "all_reduce_ms": [1.5, 1.6], "all_reduce_bytes": 65536, "algorithm": "ring",
}  # fmt: skip
MONITOR: list[Any] = [
    {"unix_s": 100 + second, "node": "n1", "cpu_percent": 50.0, "memory_used_bytes": 10,
     "memory_total_bytes": 20, "network_in_bytes": 1000 * second, "network_out_bytes": 7,
     "ranks": [{"rank": 0, "pid": 9, "cpu_percent": 99.0, "memory_bytes": 5}],
     "devices": [{"device": 0, "utilisation_percent": 80, "memory_used_bytes": 5}]}
    for second in range(3)
]  # fmt: skip
