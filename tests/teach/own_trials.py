"""Run a learner's file on four real ranks like a job of `trial.recipe`, but in a second."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import socket
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path

from course_lib.publish.building.gaps import answered
from course_lib.publish.building.source import read_lesson

REPOSITORY = Path(__file__).resolve().parents[2]
CODE = REPOSITORY / "code"
RANKS = 4
LONGEST_S = 90
FUNCOL = (
    "import torch.distributed as dist\n",
    "import torch.distributed as dist\n"
    "import torch.distributed._functional_collectives as funcol\n",
)  # a pair of words to swap


def rank_of(rank: int, port: int, folder: str, file: str, exercise: str) -> None:
    """Run one rank as launchers of two nodes do. `try_own.py` ends the process itself."""
    # What the program starts, such as workers of a loader, starts as under a launcher.
    multiprocessing.set_start_method(multiprocessing.get_all_start_methods()[0], force=True)
    os.environ |= {
        "RANK": str(rank), "LOCAL_RANK": str(rank % 2), "WORLD_SIZE": str(RANKS),
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "COURSE_RUN_DIR": folder,
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    log = os.open(f"{folder}/out.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.argv = [str(CODE / "try_own.py"), file, "--exercise", exercise]
    sys.path.insert(0, str(CODE))  # as Python does for a program
    runpy.run_path(sys.argv[0], run_name="__main__")


def cell_of(lesson: str, cell: str) -> str:
    cells = read_lesson(REPOSITORY / "lessons" / f"{lesson}.py").cells
    return next(one.text for one in cells if one.id == cell)


def program_of(lesson: str, cell: str, write: Callable[[str, str], str] = answered) -> str:
    """Return the file that a cell writes: the solution's, or with `with_gaps` the learner's."""
    return write(cell_of(lesson, cell), "").partition("\n")[2] + "\n"


def swapped(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


def on_four_ranks(folder: Path, text: str, exercise: str) -> None:
    """Run a file and leave the verdict in the folder. As under a launcher, all ranks end when one
    fails."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "own.py"
    file.write_text(text)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.preloaded"])
    first = context.Process(target=int)
    first.start()
    first.join()  # the server has imported everything; the limit is for the trial
    began = time.monotonic()
    processes = [
        context.Process(target=rank_of, args=(rank, port, str(folder), str(file), exercise))
        for rank in range(RANKS)
    ]
    for process in processes:
        process.start()
    alive = list(processes)
    while alive and time.monotonic() - began < LONGEST_S:
        wait([process.sentinel for process in alive], 1)
        if any(process.exitcode for process in alive):
            break
        alive = [process for process in alive if process.exitcode is None]
    for process in processes:
        process.kill()
        process.join(5)
