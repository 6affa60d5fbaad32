"""`python -m course_lib.lab.tensorboard`: started by the Jupyter server, ends with it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from course_lib.lab.tensorboard.mortal import exit_with
from course_lib.lab.tensorboard.server import Board, open_server


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m course_lib.lab.tensorboard")
    parser.add_argument("--socket", required=True, help="path of the Unix socket to listen on")
    parser.add_argument("--parent", type=int, default=0, help="process whose end is ours too")
    parser.add_argument("--logdir", default="", help="folder of the runs")
    options = parser.parse_args(arguments)
    if options.parent:
        exit_with(options.parent)
    board = Board(options.logdir or runs_folder())
    server = open_server(options.socket, board)
    board.start_loading()
    server.serve_forever()
    return 0


def runs_folder() -> str:
    folder = Path(os.environ.get("COURSE_RUNS", "runs")).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


if __name__ == "__main__":
    raise SystemExit(main())
