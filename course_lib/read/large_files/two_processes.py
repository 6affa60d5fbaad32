"""Searches a large file with two processes, which take its pieces in turns.

A search reads in a block of lines what can be read without any other block; that is most of the
work. Threads would not do: the interpreter lets one of them run at a time.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from course_lib.read.large_files.file_pieces import Piece, Pieces
from course_lib.read.lines import blocks, is_plain

LARGE_BYTES = 64 << 20
"""Smaller files are read before another process has begun."""
_MOST_ASKED, _MOST_KEPT = 3, 4
_PIPE_BYTES = 1 << 20
"""Linux's most: so that one who has answered need not wait until the answer is taken."""

_KEEP = {"MALLOC_TRIM_THRESHOLD_": str(64 << 20), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
"""Memory that one block needed serves the next, instead of going back to the system."""

Found = TypeVar("Found")
Found_co = TypeVar("Found_co", covariant=True)


class Search(Protocol[Found_co]):
    """One for each file and process; what it finds can be sent from one process to the other."""

    BLOCK_BYTES: int

    def __call__(self, block: bytes, hint: Any, /) -> Found_co: ...


def searched(
    path: Path, search: Search[Found], hint: Callable[[], Any] = lambda: None
) -> Iterator[tuple[int, Piece, Found]]:
    """Who searched (0: this process, 1: the other), the piece and what is in it, in order.

    `hint` is asked before each piece for what may spare the search some work.
    """
    if path.stat().st_size < LARGE_BYTES or not is_plain(path) or _processors() < 2:
        for block in blocks(path, search.BLOCK_BYTES):
            yield 0, Piece(block), search(block, hint())
        return
    pieces = Pieces(path, search.BLOCK_BYTES)
    with contextlib.closing(pieces), contextlib.closing(_OtherProcess(path, search)) as other:
        yield from _InTurns(pieces, search, other, hint)


def _processors() -> int:
    known = hasattr(os, "sched_getaffinity")  # Linux
    return len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1


class _InTurns(Generic[Found]):
    """Whoever is free takes the next piece. Should the other process die, this one does it all."""

    def __init__(
        self,
        pieces: Pieces,
        search: Search[Found],
        other: _OtherProcess,
        hint: Callable[[], Any],
    ) -> None:
        self._pieces, self._search, self._hint = pieces, search, hint
        self._other = other
        self._asked: list[int] = []
        self._open = list(reversed(range(len(pieces))))
        self._found: dict[int, tuple[int, Piece, Found]] = {}

    def __iter__(self) -> Iterator[tuple[int, Piece, Found]]:
        for number in range(len(self._pieces)):
            while number not in self._found:
                self._search_one_more(number)
            yield self._found.pop(number)

    def _search_one_more(self, wanted: int) -> None:
        """One piece more, in whichever process."""
        while self._open and len(self._asked) < _MOST_ASKED and self._other.alive:
            self._asked.append(self._open.pop())
            self._other.ask(self._asked[-1], self._hint())
        wait = wanted in self._asked and (not self._open or len(self._found) >= _MOST_KEPT)
        if self._asked and self._other.alive and (wait or self._other.has_answered()):
            self._take_answer()
        elif self._open:
            self._search_here(self._open.pop())
        if not self._other.alive:
            self._open += reversed(self._asked)
            self._asked.clear()

    def _search_here(self, number: int) -> None:
        block = self._pieces.read(number)
        found = self._search(block, self._hint())
        self._found[number] = 0, Piece(block), found

    def _take_answer(self) -> None:
        with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
            found = self._other.answer()
            number = self._asked.pop(0)
            self._found[number] = 1, Piece(partial(self._pieces.read, number)), found
            return
        self._other.close()


class _OtherProcess:
    """The other process; `alive` until it fails or is not needed any more."""

    def __init__(self, path: Path, search: Search[Any]) -> None:
        theirs_in, self._out = Pipe(duplex=False)
        self._in, theirs_out = Pipe(duplex=False)
        _widen(theirs_out.fileno())
        ends = theirs_in.fileno(), theirs_out.fileno()
        code = f"from {__name__} import _serve; _serve({ends[0]}, {ends[1]})"
        self.alive = False
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                pass_fds=ends,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=os.environ | _KEEP | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
            self.alive = True
        theirs_in.close()
        theirs_out.close()
        kind = type(search)
        self._send((str(path), search.BLOCK_BYTES, kind.__module__, kind.__qualname__))

    def ask(self, number: int, hint: Any) -> None:
        self._send((number, hint))

    def _send(self, message: Any) -> None:
        with contextlib.suppress(OSError):
            self._out.send(message)

    def has_answered(self) -> bool:
        return self._in.poll()

    def answer(self) -> Any:
        return self._in.recv()

    def close(self) -> None:
        self._out.close()
        self._in.close()
        if self.alive:
            self.alive = False
            self._process.kill()
            self._process.wait()


def _widen(pipe: int) -> None:
    import fcntl

    with contextlib.suppress(OSError, AttributeError):  # Linux alone has it
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def _serve(asked: int, answers: int) -> None:
    """What the other process does until no one asks any more."""
    questions, out = Connection(asked, writable=False), Connection(answers, readable=False)
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        path, size_bytes, module, name = questions.recv()
        search = getattr(import_module(module), name)()
        pieces = Pieces(Path(path), size_bytes)
        while True:
            number, hint = questions.recv()
            out.send(search(pieces.read(number), hint))
