"""Execution of a learner's program in this process, with limited output."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import torch.distributed as dist

# Limit for one rank's output: nobody reads a longer log, and it would fill a shared disk.
MOST_BYTES = 4 << 20
LONGEST_LINE_BYTES = 1 << 16
LAST_WORDS_S = 2.0
KEPT: list[object] = []


@contextlib.contextmanager
def limited_output(excess: Callable[[int], object], most_bytes: int = MOST_BYTES) -> Iterator[None]:
    """Copy the output of this process and its children line by line, so that lines of several ranks
    never mix. After `most_bytes`, call `excess` with a descriptor to write to; it has to end the
    process."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    budget = [most_bytes]
    pumps = []
    for descriptor, sink in zip((1, 2), kept, strict=True):
        source, entrance = os.pipe()
        os.dup2(entrance, descriptor)
        os.close(entrance)
        pump = threading.Thread(target=_pump, args=(source, sink, budget, excess), daemon=True)
        pump.start()
        pumps.append(pump)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, sink in zip((1, 2), kept, strict=True):
            os.dup2(sink, descriptor)
        for pump in pumps:  # a surviving child may still hold the other end
            pump.join(LAST_WORDS_S)


def _pump(
    source: int, sink: int, budget: list[int], excess: Callable[[int], object]
) -> None:  # fmt: skip
    begun = b""
    while text := os.read(source, LONGEST_LINE_BYTES):
        budget[0] -= len(text)
        if budget[0] < 0:
            excess(sink)
            return
        lines, ends, rest = (begun + text).rpartition(b"\n")
        if not ends and len(rest) > LONGEST_LINE_BYTES:
            lines, rest = rest, b""
        _write(sink, lines + ends)
        begun = rest
    _write(sink, begun)


def _write(sink: int, text: bytes) -> None:
    view = memoryview(text)
    while view:
        view = view[os.write(sink, view) :]


def run_file(file: Path, name: str) -> dict[str, Any]:
    """Run a file; return its names, which stay alive as long as the process. runpy would free them,
    and with a model its process group. Then gloo's thread needs Python's lock for its last tensors,
    while the thread that waits for it holds the lock."""
    module = ModuleType(name)
    module.__file__ = str(file)
    sys.modules[name] = module
    KEPT.append(module)
    exec(compile(file.read_bytes(), str(file), "exec"), module.__dict__)
    return module.__dict__


def keep_groups() -> None:
    """Keep process groups alive that a program creates inside a function. Also, no rank leaves
    `init_process_group` before all arrive, because the last rank could not connect to ranks that
    have ended."""
    os.environ.setdefault("TORCH_DIST_INIT_BARRIER", "1")
    for name in ("init_process_group", "new_group"):
        setattr(dist, name, _kept(getattr(dist, name)))


def _kept(make: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(make)
    def call(*args: Any, **named: Any) -> Any:
        made = make(*args, **named)
        KEPT.append(made or dist.group.WORLD)
        return made

    return call


def inside(error: BaseException, file: Path) -> TracebackType | None:
    """Return the traceback from the file's first frame on, without the course's frames."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != str(file):
        trace = trace.tb_next
    return trace
