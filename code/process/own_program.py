"""A program of the learner's own in a process of ours: how it is run, and what it may print."""

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

# Printed by one rank; a log of more is read by nobody, and fills the disk of everybody.
MOST_BYTES = 4 << 20
LONGEST_LINE_BYTES = 1 << 16
LAST_WORDS_S = 2.0
KEPT: list[object] = []


@contextlib.contextmanager
def limited_output(excess: Callable[[int], object], most_bytes: int = MOST_BYTES) -> Iterator[None]:
    """Whatever this process and its children print goes on, line by line, so that lines of several
    ranks never mix; up to so many bytes: then `excess` is called with a descriptor to write to, and
    is to end the process."""
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
        for pump in pumps:  # a child that lives on may still hold the other end
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
    """Runs a file; returns its names. They live as long as the process: runpy would end them, and
    with a model goes the process group that it holds. Gloo's thread, which ends with that, wants
    Python's lock for the last tensors, and who waits for the thread has it."""
    module = ModuleType(name)
    module.__file__ = str(file)
    sys.modules[name] = module
    KEPT.append(module)
    exec(compile(file.read_bytes(), str(file), "exec"), module.__dict__)
    return module.__dict__


def keep_groups() -> None:
    """The groups of a program that makes them in a function would end with it, as its names do.
    And no rank leaves `init_process_group` before all have: where a program is over at once, the
    last still connects to ranks that are gone, and that is an error."""
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
    """The traceback from the first line of the file on: what called it is not the learner's."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != str(file):
        trace = trace.tb_next
    return trace
