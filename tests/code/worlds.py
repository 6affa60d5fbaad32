"""Groups of processes that run one function after another, so that torch starts once per rank."""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

LONGEST_SECONDS = 120
FOLDERS = [str(Path(__file__).resolve().parents[2] / name) for name in ("code", "benchmarks")]
FOLDERS.append(str(Path(__file__).resolve().parent))


def serve(rank: int, size: int, port_file: str, pipe: Connection) -> None:
    """A rank: joins the group, then calls what it is sent until the pipe closes."""
    sys.path[:0] = FOLDERS
    import torch
    import torch.distributed as dist

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
    def __init__(self, size: int, folder: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch", "torch.distributed", "torch.distributed.fsdp"])
        self.pipes, self.processes = [], []
        store = str(folder / f"store{size}")
        for rank in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(rank, size, store, theirs), daemon=True)
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
            assert ready, f"ranks without an answer: {set(range(len(self.pipes))) - set(answers)}"
            for pipe in ready:
                rank = self.pipes.index(pipe)
                good, value = pipe.recv()
                assert good, f"rank {rank} failed:\n{value}"
                answers[rank] = value
        return [answers[rank] for rank in sorted(answers)]

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

    def __enter__(self) -> Worlds:
        import tempfile

        self.folder = tempfile.TemporaryDirectory(prefix="course-worlds-")
        return self

    def __exit__(self, *error: object) -> None:
        for world in self.made.values():
            world.close()
        self.folder.cleanup()

    def __call__(self, size: int) -> World:
        if size not in self.made:
            self.made[size] = World(size, Path(self.folder.name))
        return self.made[size]
