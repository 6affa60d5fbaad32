"""Records small profiler traces with today's torch: `record_traces.py FOLDER RANK`.

Rank 0 also records two runs of one process, of different width, for the Diff view.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.tensorboard import SummaryWriter

torch.set_num_threads(1)


def train(run: Path, hidden: int, rank: int, world: int) -> None:
    torch.manual_seed(rank)
    layers = torch.nn.Linear(32, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 32)
    model: torch.nn.Module = torch.nn.Sequential(*layers)
    if world > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters())
    is_alone = world == 1  # torch's tracer of frames has crashed beside DDP's threads
    (run / "profile").mkdir(parents=True, exist_ok=True)
    trace = run / "profile" / f"rank{rank}.1700000000000.pt.trace.json.gz"
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=2),
        on_trace_ready=lambda done: done.export_chrome_trace(str(trace)),
        profile_memory=True,
        record_shapes=True,
        with_stack=is_alone,
        with_modules=is_alone,
    ) as profiler:
        for _ in range(3):
            with record_function("forward"):
                loss = model(torch.randn(16, 32)).pow(2).mean()
            with record_function("backward"):
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()


def main(folder: Path, rank: int) -> None:
    if rank == 0:
        train(folder / "narrow-1", 64, 0, 1)
        train(folder / "wide-2", 512, 0, 1)
        with SummaryWriter(str(folder / "narrow-1" / "tensorboard")) as writer:
            for iteration in range(20):
                writer.add_scalar("lm loss", 10 - iteration / 4, iteration)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    train(folder / "two-3", 64, rank, 2)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
