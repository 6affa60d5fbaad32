"""Kill the program at every file operation of a save, each time in a fresh fork, and resume it.

    python tests/code/checkpoints/killed_saves.py FOLDER [FLAGS]

Prints one line of JSON per kill: at which operation, the checkpoint that is chosen afterwards, and
what the resumed run printed.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / name) for name in ("code", "tests/code")]

import one_run  # noqa: E402

import pretrain_gpt  # noqa: E402
from checkpoints.files import newest  # noqa: E402

FLAGS = [*one_run.MODEL, "--lr-decay-iters", "12", "--log-interval", "1", "--save-interval", "1"]
STEP_KILLED = 2


def in_fork(argv: list[str], kill_at: int | None, folder: Path) -> tuple[int, str]:
    """Return how the program ended, and its output."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        if kill_at is not None:
            kill_at_operation(kill_at, folder / f"iter_{STEP_KILLED:07d}.unfinished")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            pretrain_gpt.main(argv)
        os.write(writing, printed.getvalue().encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text


def kill_at_operation(number: int, unfinished: Path) -> None:
    """Count operations from the first operation on the unfinished checkpoint."""
    count = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if event in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"):
            inside = str(arguments[0]).startswith(str(unfinished.parent))
            started = count or str(arguments[0]).startswith(str(unfinished))
            count += inside and bool(started)
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def main(folder: Path, *more: str) -> None:
    save = [*FLAGS, *more, "--train-iters", str(STEP_KILLED), "--save"]
    in_fork([*save, str(folder / "0")], None, folder)
    for number in range(1, 100):
        here = folder / str(number)
        shutil.copytree(folder / "0", here)  # the same checkpoints are saved once more
        code, _ = in_fork([*save, str(here)], number, here)
        chosen = newest(here)
        resumed = [*FLAGS, "--train-iters", "3", "--load", str(here)]
        _, text = in_fork(resumed, None, here)
        killed = code == -signal.SIGKILL
        told = {"killed": killed, "chosen": chosen.name if chosen else None, "text": text}
        print(json.dumps(told), flush=True)
        if not killed:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
