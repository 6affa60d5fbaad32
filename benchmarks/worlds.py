"""Groups of processes that run one function after another, so that torch starts once per rank."""

from __future__ import annotations

import faulthandler
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
ROOT = Path(__file__).resolve().parents[1]
FOLDERS = [str(ROOT / name) for name in ("code", "benchmarks", "tests/code")]


def serve(rank: int, size: int, port_file: str, pipe: Connection) -> None:
    """A rank: joins the group, then calls what it is sent until the pipe closes."""
    sys.path[:0] = FOLDERS
    import torch
    import torch.distributed as dist

    faulthandler.register(signal.SIGUSR1, chain=True)
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank))
    dist.init_process_group("gloo", store=dist.FileStore(port_file, size), rank=rank,
                            world_size=size)  # fmt: skip
    while True:
        try:
            function, arguments = pipe.recv()
        except EOFError:
            os._exit(0)
        try:
            pipe.send((True, function(*arguments)))
        except BaseException:
            pipe.send((False, traceback.format_exc()))


class World:
    def __init__(self, size: int, store: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch", "torch.distributed", "torch.distributed.fsdp"])
        self.pipes, self.processes, self.broken = [], [], False
        for rank in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=serve, args=(rank, size, str(store), theirs), daemon=True
            )
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def run(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Calls the function on every rank; the results by rank."""
        for pipe in self.pipes:
            pipe.send((function, arguments))
        answers: dict[int, Any] = {}
        while len(answers) < len(self.pipes):
            missing = [pipe for rank, pipe in enumerate(self.pipes) if rank not in answers]
            ready = wait(missing, LONGEST_SECONDS)
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
        """Ranks that wait for one that failed would wait for ever: they say where, and end."""
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
    def __init__(self) -> None:
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

    def __call__(self, size: int) -> World:
        if size not in self.made or self.made[size].broken:
            self.count += 1
            self.made[size] = World(size, Path(self.folder.name) / f"store{self.count}")
        return self.made[size]
