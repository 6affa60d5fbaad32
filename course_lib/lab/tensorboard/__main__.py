"""`python -m course_lib.lab.tensorboard`: started by the Jupyter server, ends with it."""

from __future__ import annotations

import argparse
import atexit
import os
import sys
from pathlib import Path

from course_lib.lab.tensorboard import served
from course_lib.lab.tensorboard.mortal import exit_with
from course_lib.lab.tensorboard.server import Board, open_server


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m course_lib.lab.tensorboard")
    parser.add_argument("--socket", required=True, help="path of the Unix socket to listen on")
    parser.add_argument("--parent", type=int, default=os.getppid(), help="its end is ours too")
    options = parser.parse_args(arguments)
    exit_with(options.parent)

    def wanted() -> Path:
        return served.wanted(options.parent)

    runs = wanted()
    runs.mkdir(parents=True, exist_ok=True)
    board = Board(str(runs), wanted=lambda: str(wanted()), restart=_start_again)
    server = open_server(options.socket, board)
    board.start_loading()
    server.serve_forever()
    return 0


def _start_again() -> None:
    """TensorBoard cannot change its folder. The same process under the same number begins anew,
    so that the Jupyter server goes on supervising it."""
    atexit._run_exitfuncs()  # execv skips them, and they remove temporary files
    os.execv(sys.executable, [sys.executable, "-m", "course_lib.lab.tensorboard", *sys.argv[1:]])


if __name__ == "__main__":
    raise SystemExit(main())
