"""Small tables as `read` returns them, for the tests of figures."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd

from course_lib.read import Diary

CATEGORIES = ("parameters", "gradients", "optimizer", "activations", "temporary")


def iterations(count: int = 80, skipped: int = 0) -> pd.DataFrame:
    number = np.arange(10, 10 * count + 10, 10)
    return pd.DataFrame(
        {
            "iteration": number,
            "lm_loss": 6 + 5 * np.exp(-number / 300),
            "elapsed_ms": 537.0,
            "global_batch_size": 8,
            "consumed_samples": 8 * number,
            "loss_scale": 2.0 ** np.clip(23 - number // 20, 10, 23),
            "skipped_iterations": (np.arange(count) < skipped).astype(int),
            "nan_iterations": 0,
        }
    )


def diary(broken: bool = False) -> Diary:
    """Diary of four ranks and ten steps; the loss of rank 2 may end as NaN."""
    rows = [
        {
            "rank": rank, "iteration": step, "own_ms": 40.0 + 5 * rank,
            "loss": float("nan") if broken and rank == 2 and step == 10 else 9 - 0.02 * step,
        }
        for rank in range(4)
        for step in range(1, 11)
    ]  # fmt: skip
    return Diary(pd.DataFrame(rows))


def timeline(rank: int = 0, height: float = 1.0, points: int = 500) -> SimpleNamespace:
    """Memory over two steps: activations rise in forward and fall in backward, and gradients exist
    in backward."""
    time_us = np.linspace(0, 1e6, points)
    step = np.linspace(0, 2, points) % 1
    columns = [
        np.full(points, 300 << 20),
        (150 << 20) * (step > 0.5),
        np.full(points, 600 << 20),
        height * (2 << 30) * np.minimum(step, 1 - step),
        np.full(points, 1 << 20),
    ]
    by_category = np.stack(columns, axis=1).astype(np.int64)
    total = by_category.sum(axis=1)
    top = int(total.argmax())
    spans = (("forward", 0.0, 0.24), ("backward", 0.25, 0.45))
    spans = (*spans, ("pace", 0.4, 0.45), ("optimizer", 0.46, 0.5))
    phases = [
        {
            "phase": phase,
            "step": number,
            "micro_batch": 0 if phase in ("forward", "backward") else None,
            "begin_us": 1e6 * (number / 2 + begin),
            "end_us": 1e6 * (number / 2 + end),
        }
        for number in (0, 1)
        for phase, begin, end in spans
    ]
    return SimpleNamespace(
        rank=rank, node="node1", device="cpu", limit_bytes=2 << 30, categories=CATEGORIES,
        time_us=time_us, bytes_by_category=by_category, phases=pd.DataFrame(phases),
        peak_bytes=int(total[top]), peak_time_us=float(time_us[top]), start_unix_ns=0,
        peak_composition=dict(zip(CATEGORIES, map(int, by_category[top]), strict=True)),
        downsample=lambda _: (time_us, by_category),
    )  # fmt: skip


def transports(world: int, per_node: int, mesh: bool = False) -> pd.DataFrame:
    """Return a ring over all ranks; with `mesh`, all pairs inside a node."""
    matrix = pd.DataFrame("", index=range(world), columns=range(world))
    for rank in range(world):
        for other in (rank + 1) % world, (rank - 1) % world:
            if other != rank:
                near = rank // per_node == other // per_node
                matrix.loc[rank, other] = "P2P/IPC" if near else "NET/Socket"
        first = rank // per_node * per_node
        for other in range(first, first + per_node) if mesh else ():
            if other != rank:
                matrix.loc[rank, other] = "P2P/CUMEM"
    return matrix


def nccl(world: int, per_node: int, mesh: bool = False, known: int = 1) -> SimpleNamespace:
    """Return the log of a job in which one of every `known` ranks states its host."""
    ranks = pd.DataFrame({"rank": range(world), "communicator": 1})
    hosts = [f"node{rank // per_node + 1}" for rank in range(world)]
    ranks["host"] = [host if rank % known == 0 else None for rank, host in enumerate(hosts)]
    matrix = transports(world, per_node, mesh)
    return SimpleNamespace(ranks=ranks, matrix=lambda: matrix, largest=lambda: 1)


def load(seconds: int = 90, devices: bool = False) -> SimpleNamespace:
    """Load of two nodes with two ranks each, as read.monitor returns it."""
    time_s = np.arange(float(seconds))
    nodes = [
        {
            "node": node,
            "time_s": time_s,
            "cpu_percent": 50.0,
            "memory_used_bytes": 4 << 30,
            "memory_total_bytes": 16 << 30,
            "network_in_bytes_s": 1e6 * (time_s % 7),
            "network_out_bytes_s": 1e6 * (time_s % 5),
        }
        for node in ("node1", "node2")
    ]
    ranks = [
        {
            "node": f"node{rank // 2 + 1}",
            "rank": rank,
            "pid": 100 + rank,
            "time_s": time_s,
            "cpu_percent": 30.0 + rank / 3,
            "slot_percent": 90.0 + rank,
            "memory_bytes": (1 + rank) << 30,
        }
        for rank in range(4)
    ]
    gpu = [
        {
            "node": "node1",
            "device": device,
            "time_s": time_s,
            "utilisation_percent": 70.0 + device,
            "memory_used_bytes": 10 << 30,
            "memory_total_bytes": 16 << 30,
        }
        for device in (0, 1)
    ]
    tables = [pd.concat([pd.DataFrame(row) for row in rows]) for rows in (nodes, ranks, gpu)]
    found = dict(zip(("load", "ranks", "devices"), tables, strict=True))
    return SimpleNamespace(**found if devices else {**found, "devices": found["devices"].head(0)})


def spans() -> pd.DataFrame:
    """Ranges of two ranks and one step: two micro-batches, forward and backward, with a range
    inside."""
    rows = []
    for rank in (0, 1):
        start = 1e6 + 500 * rank
        rows.append((rank, 3, "ProfilerStep#3", start, start + 50_000))
        for m in (0, 1):
            rows.append((rank, 3, f"forward {m}", start + 8000 * m, start + 8000 * m + 7000))
            rows.append((rank, 3, "layers", start + 8000 * m + 100, start + 8000 * m + 6000))
            begin = start + 20_000 + 12_000 * m
            rows.append((rank, 3, f"backward {m}", begin, begin + 11_000))
        rows.append((rank, 3, "communication: gradients", start + 45_000, start + 48_000))
    return pd.DataFrame(rows, columns=["rank", "step", "name", "begin_us", "end_us"])
