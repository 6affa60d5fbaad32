"""Run your own program as one rank of a job.

    torchrun --nproc-per-node 2 code/run_own.py my_program.py --its-own 3

The program runs as `__main__` and can import modules beside it and in these folders. It also gets
the features of the course's ranks: on a device slot without GPU it computes at that slot's pace
(process/pace.py), errors show rank and node, and output is limited to some MiB."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from process.device import keep_memory
from process.environment import SLURM, TORCHRUN, environment_of_rank, threads
from process.errors import node_name
from process.exit import fail, run_and_exit
from process.own_program import MOST_BYTES, inside, keep_groups, limited_output, run_file
from process.pace import keep_pace

USAGE = "usage: run_own.py FILE [ARGUMENT …of the file's own]"


def printed_too_much(descriptor: int) -> None:
    rank = environment_of_rank()[0]
    line = (
        f"[rank{rank}]: run_own.py: error: the program printed more than {MOST_BYTES >> 20} MiB; "
        f"print on rank 0 alone, and less (rank {rank} on {node_name()})\n"
    )
    os.write(descriptor, line.encode())
    os._exit(1)


def prepare() -> None:
    if all(name in os.environ for name in SLURM):  # a task of srun, without torchrun
        os.environ.update(zip(TORCHRUN, map(str, environment_of_rank()), strict=True))
    torch.set_num_threads(threads())
    if not torch.accelerator.is_available():
        keep_memory()
        torch.set_flush_denormal(True)
    keep_pace()
    keep_groups()


def main() -> int:
    if len(sys.argv) < 2:
        print(f"{USAGE}\nrun_own.py: error: give the file to run", file=sys.stderr)
        return 2
    if sys.argv[1] in ("-h", "--help"):
        print(f"{USAGE}\n\n{__doc__}")
        return 0
    file = Path(sys.argv[1]).resolve()
    del sys.argv[0]
    sys.path.insert(0, str(file.parent))
    prepare()
    try:
        with limited_output(printed_too_much):
            run_file(file, "__main__")
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except Exception as error:
        fail(error.with_traceback(inside(error, file)))
    return 0


if __name__ == "__main__":
    run_and_exit(main)
