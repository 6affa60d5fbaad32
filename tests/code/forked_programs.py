"""Start programs of code/ as forks of a server with torch, because a cold start takes seconds."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import tempfile
from pathlib import Path


class Forked:
    """A running `python WORDS` with this environment. Its output and errors go into one file."""

    def __init__(self, *words: object, environment: dict[str, str] | None = None) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.preloaded"])
        with tempfile.NamedTemporaryFile(delete=False) as output:
            self.output = Path(output.name)
        given = [*map(str, words)], environment or dict(os.environ), str(self.output)
        self.process = context.Process(target=run, args=given)
        self.process.start()

    def end(self, patience_s: float = 120) -> tuple[int | None, str]:
        """Return exit code and output. The code is None if the program had to be killed."""
        self.process.join(patience_s)
        code = self.process.exitcode
        self.process.kill()
        self.process.join()
        text = self.output.read_text(errors="replace")
        self.output.unlink()
        return code, text


def run(words: list[str], environment: dict[str, str], output: str) -> None:
    # What the program starts, such as workers of a loader, starts as in a new process.
    multiprocessing.set_start_method(multiprocessing.get_all_start_methods()[0], force=True)
    os.environ.clear()
    os.environ.update(environment)
    file = os.open(output, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(file, stream)
    sys.argv = words
    sys.path.insert(0, str(Path(words[0]).parent))  # as Python does for a program
    runpy.run_path(words[0], run_name="__main__")
