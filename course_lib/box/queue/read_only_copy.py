"""Reads the state file where nothing can be written: on a full disk, in a read-only folder.

SQLite makes files beside a database even to read it, or locks out everybody else. So the file
and its journal are read as they are, put together, and looked at in memory.
"""

from __future__ import annotations

import _sqlite3 as sqlite3  # as in store.py
from functools import cache
from struct import unpack

from course_lib.box.queue import state_file_advice, store

TRIES = 5
HEADER_BYTES, FRAME_BYTES = 32, 24
LITTLE_ENDIAN_SUMS, BIG_ENDIAN_SUMS = 0x377F0682, 0x377F0683


def connection(error: store.StateError) -> sqlite3.Connection:
    """In a transaction, on a copy in memory; raises `error` where the file cannot be read."""
    if isinstance(error, store.HomeGone | store.NotOurs) or "locked" in str(error):
        raise error
    db = sqlite3.connect(":memory:", isolation_level=None)
    try:
        db.deserialize(_content(store.path()))
        if db.execute("PRAGMA user_version").fetchone()[0] != store.SCHEMA_VERSION:
            raise error
        db.execute("BEGIN")
    except (sqlite3.Error, OSError, ValueError):
        db.close()
        raise error from None
    _tell_once(state_file_advice.explain(error))
    return db


@cache
def _tell_once(why: str) -> None:
    store.tell(f"box: note: {why}. What is shown may be out of date.")


def _content(file: str) -> bytes:
    """Of one moment. No connection of this process is open now, whose locks this would drop."""
    for _ in range(TRIES):
        journal = _journal(file)
        with open(file, "rb") as opened:
            base = opened.read()
        if _journal(file)[:HEADER_BYTES] == journal[:HEADER_BYTES]:
            break
    pages = bytearray(base)
    apply(journal, pages)
    pages[18:20] = b"\1\1"  # without a journal, or SQLite would look for one
    return bytes(pages)


def _journal(file: str) -> bytes:
    try:
        with open(f"{file}-wal", "rb") as opened:
            return opened.read()
    except FileNotFoundError:
        return b""


def apply(journal: bytes, pages: bytearray) -> None:
    """Puts every page of the journal in its place, up to the last transaction that was completed
    (https://sqlite.org/fileformat2.html, 4)."""
    if len(journal) < HEADER_BYTES:
        return
    magic, _, page_bytes, _, *salts = unpack(">6I", journal[:24])
    if magic not in (LITTLE_ENDIAN_SUMS, BIG_ENDIAN_SUMS):
        return
    order = "<" if magic == LITTLE_ENDIAN_SUMS else ">"
    sums = _summed((0, 0), journal[:24], order)
    waiting: list[tuple[int, int]] = []
    frame_bytes = FRAME_BYTES + page_bytes
    for place in range(HEADER_BYTES, len(journal) - frame_bytes + 1, frame_bytes):
        content = place + FRAME_BYTES
        page, size, *frame_salts, sum_1, sum_2 = unpack(">6I", journal[place:content])
        sums = _summed(sums, journal[place : place + 8], order)
        sums = _summed(sums, journal[content : place + frame_bytes], order)
        if frame_salts != salts or sums != (sum_1, sum_2):
            return
        waiting.append((page, content))
        if size:
            _commit(waiting, journal, page_bytes, size, pages)
            waiting = []


def _commit(
    written: list[tuple[int, int]], journal: bytes, page_bytes: int, size: int, pages: bytearray
) -> None:
    length = size * page_bytes
    if len(pages) < length:
        pages.extend(bytes(length - len(pages)))
    for page, place in written:
        pages[(page - 1) * page_bytes : page * page_bytes] = journal[place : place + page_bytes]
    del pages[length:]


def _summed(sums: tuple[int, int], content: bytes, order: str) -> tuple[int, int]:
    one, two = sums
    words = unpack(f"{order}{len(content) // 8 * 2}I", content[: len(content) // 8 * 8])
    for place in range(0, len(words), 2):
        one = (one + words[place] + two) & 0xFFFFFFFF
        two = (two + words[place + 1] + one) & 0xFFFFFFFF
    return one, two
