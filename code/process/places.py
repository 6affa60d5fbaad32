"""The place where this process is: in one line for itself, in full when asked by a signal.

A job hangs, and nothing is printed. Python can write the stacks of all its threads when a signal
comes, whatever they wait for (`faulthandler`): no thread has to be able to run for it. Each rank
keeps a file for that in `stacks/` of the run folder, and begins it with who it is:

    srun --overlap --jobid=<job> --ntasks-per-node=1 python code/process/places.py <run folder>

asks all ranks of the job, each on its own node, for a stack (`lab.stacks(run)` does).
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import sys
import threading
from pathlib import Path

FOLDER = "stacks"
ASK = signal.SIGUSR2
OPENED: list[object] = []


def answer_with_stacks(rank: int, node: str) -> None:
    """Lets this process write its stacks, from now on, when it is asked to."""
    run = os.environ.get("COURSE_RUN_DIR")
    if not run or threading.current_thread() is not threading.main_thread():
        return
    try:
        folder = Path(run) / FOLDER
        folder.mkdir(exist_ok=True)
        file = (folder / f"rank{rank}.txt").open("w", encoding="utf-8")
        who = {"rank": rank, "node": node, "pid": os.getpid(), "began": began(os.getpid())}
        faulthandler.register(ASK, file=file, all_threads=True)
        file.write(json.dumps(who) + "\n")  # from now on it may be asked
        file.flush()
        OPENED.append(file)
    except OSError:  # a full disk is no reason not to train
        return


def leave_flight_record(rank: int) -> None:
    """The last collectives of this rank, where torch was asked to remember them
    (TORCH_FR_BUFFER_SIZE). Beside the others' one sees who was in another one, or behind."""
    run = os.environ.get("COURSE_RUN_DIR")
    if not run or not os.environ.get("TORCH_FR_BUFFER_SIZE"):
        return
    with contextlib.suppress(ImportError, OSError, RuntimeError):
        from torch._C import _distributed_c10d

        dump = getattr(_distributed_c10d, "_dump_fr_trace_json", None)  # not in every version
        if dump is None:
            return
        folder = Path(run) / "flight"
        folder.mkdir(exist_ok=True)
        (folder / f"rank{rank}.json").write_bytes(dump())


def began(pid: int) -> str:
    """Tells a process from a later one of the same number; empty where nothing tells."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def ask(folder: Path, node: str) -> list[int]:
    """Signals the ranks of this node that are alive; returns which."""
    asked = []
    for file in sorted((folder / FOLDER).glob("rank*.txt")):
        who = json.loads(file.open(encoding="utf-8").readline() or "{}")
        pid = who.get("pid")
        if who.get("node") == node and pid and began(pid) == who["began"]:
            os.kill(pid, ASK)
            asked.append(who["rank"])
    return asked


def busy_at() -> str:
    """The innermost place of our programs where the main thread is; empty in a collective, and on
    a rank that is telling of an error of its own."""
    home = str(Path(__file__).resolve().parents[1])
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    found = ""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.endswith("distributed_c10d.py") or frame.f_code.co_name == "fail":
            return ""
        if not found and file.startswith(home):
            found = f"{os.path.relpath(file, home)}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = frame.f_back
    return found


if __name__ == "__main__":
    here = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    print(*ask(Path(sys.argv[1]), here))
