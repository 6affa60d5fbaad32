"""Groups of processes that run many functions in turn, so that torch starts once per rank."""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

LONGEST_SECONDS = 240
ROOT = Path(__file__).resolve().parents[2]
# Makes this process a rank of so many, which share the file.
Join = Callable[[int, int, str], None]
FOLDERS = [str(ROOT / name) for name in ("code", "tests/code")]


def leave_groups() -> None:
    """End all groups except the world. Threads of unused gloo groups still wake many times a
    second, and hundreds of them slowed other tests."""
    import torch.distributed as dist

    for group in list(dist.distributed_c10d._world.pg_map):
        if group is not dist.group.WORLD:
            dist.destroy_process_group(group)
    gc.collect()


def join_by_gloo(rank: int, size: int, store: str) -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.FileStore(store, size), rank=rank, world_size=size)


def serve(
    rank: int, size: int, store: str, keep_groups: bool, join: Join, pipe: Connection
) -> None:
    """Run a rank: join the world, then call the received functions until the pipe closes."""
    sys.path[:0] = FOLDERS
    import torch

    faulthandler.register(signal.SIGUSR1, chain=True)
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank))
    join(rank, size, store)
    while True:
        try:
            function, arguments = pipe.recv()
        except EOFError:
            os._exit(0)
        try:
            answer = (True, function(*arguments))
        except BaseException:
            answer = (False, traceback.format_exc())
        if answer[0] and not keep_groups:
            leave_groups()
        pipe.send(answer)


class World:
    def __init__(
        self, size: int, store: Path, keep_groups: bool, join: Join, patience_s: float
    ) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.preloaded"])
        self.pipes, self.processes, self.broken = [], [], False
        self.patience_s = patience_s
        for rank in range(size):
            ours, theirs = context.Pipe()
            arguments = (rank, size, str(store), keep_groups, join, theirs)
            process = context.Process(target=serve, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def run(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call the function on every rank, and return the results by rank."""
        for pipe in self.pipes:
            pipe.send((function, arguments))
        answers: dict[int, Any] = {}
        while len(answers) < len(self.pipes):
            missing = [pipe for rank, pipe in enumerate(self.pipes) if rank not in answers]
            ready = wait(missing, self.patience_s)
            if not ready:
                self.give_up(f"no answer from ranks {set(range(len(self.pipes))) - set(answers)}")
            for pipe in ready:
                rank = self.pipes.index(pipe)
                good, value = pipe.recv()
                if not good:
                    self.give_up(f"rank {rank} failed:\n{value}")
                answers[rank] = value
        return [answers[rank] for rank in sorted(answers)]

    def give_up(self, why: str) -> None:
        """End all ranks, because ranks that wait for a failed rank would wait forever. Each rank
        first reports its place."""
        for process in self.processes:
            os.kill(process.pid, signal.SIGUSR1)
        self.broken = True
        for process in self.processes:
            process.join(2)
            process.kill()
        raise AssertionError(why)

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.join(5)
            if process.is_alive():
                process.kill()


class Worlds:
    """Groups of ranks by size. With `keep_groups`, functions leave objects behind for later
    calls."""

    def __init__(
        self,
        keep_groups: bool = False,
        join: Join = join_by_gloo,
        patience_s: float = LONGEST_SECONDS,
    ) -> None:
        self.keep_groups, self.join, self.patience_s = keep_groups, join, patience_s
        self.made: dict[int, World] = {}
        self.count = 0

    def __enter__(self) -> Worlds:
        import tempfile

        self.folder = tempfile.TemporaryDirectory(prefix="course-worlds-")
        return self

    def __exit__(self, *error: object) -> None:
        for world in self.made.values():
            world.close()
        self.folder.cleanup()

    def renew(self, size: int) -> None:
        """Start new ranks. After several FSDP trainings in one process, torch has looked for a
        group that ended with an earlier training. It probably keeps groups by mesh, and the meshes
        are equal."""
        if size in self.made:
            self.made.pop(size).close()

    def __call__(self, size: int) -> World:
        if size not in self.made or self.made[size].broken:
            self.count += 1
            store = Path(self.folder.name) / f"store{self.count}"
            self.made[size] = World(size, store, self.keep_groups, self.join, self.patience_s)
        return self.made[size]
