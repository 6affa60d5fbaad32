"""Location of this process in its program: a short line, or full stacks on a signal.

If a job hangs, nothing is printed. On a signal, Python can write the stacks of all its threads,
whatever they wait for (`faulthandler`), without running any thread. Each rank keeps a file for this
in `stacks/` of the run folder, whose first line identifies the rank:

    srun --overlap --jobid=<job> --ntasks-per-node=1 python code/process/places.py <run folder>

requests stacks from all ranks of the job, each on its own node (`lab.stacks(run)` does this)."""

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
    """Make this process write its stacks on the signal, from now on."""
    run = os.environ.get("COURSE_RUN_DIR")
    if not run or threading.current_thread() is not threading.main_thread():
        return
    try:
        folder = Path(run) / FOLDER
        folder.mkdir(exist_ok=True)
        file = (folder / f"rank{rank}.txt").open("w", encoding="utf-8")
        who = {"rank": rank, "node": node, "pid": os.getpid(), "began": began(os.getpid())}
        faulthandler.register(ASK, file=file, all_threads=True)
        file.write(json.dumps(who) + "\n")  # from now on it can be signalled
        file.flush()
        OPENED.append(file)
    except OSError:  # a full disk is no reason not to train
        return


def leave_flight_record(rank: int) -> None:
    """Write the last collectives of this rank, if torch recorded them (TORCH_FR_BUFFER_SIZE). A
    comparison of the files shows which rank was in a different collective, or fell behind."""
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
    """Return the start time, which distinguishes a process from a later one with its number; "" if
    unknown."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def ask(folder: Path, node: str) -> list[int]:
    """Signal the live ranks of this node; return them."""
    asked = []
    for file in sorted((folder / FOLDER).glob("rank*.txt")):
        who = json.loads(file.open(encoding="utf-8").readline() or "{}")
        pid = who.get("pid")
        if who.get("node") == node and pid and began(pid) == who["began"]:
            os.kill(pid, ASK)
            asked.append(who["rank"])
    return asked


def busy_at() -> str:
    """Return the main thread's innermost place in this program; empty in a collective, or on a rank
    that is reporting its own error."""
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
