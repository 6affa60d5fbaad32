"""A readable copy of the state file if nothing can be written (full disk, read-only folder).

SQLite creates files beside a database even to read it. Therefore the file and its journal are
copied to a place with space, in memory if possible. SQLite merges them there.
"""

from __future__ import annotations

import _sqlite3 as sqlite3  # as in store.py
import os

TRIES = 5
# The header of a journal. It changes when SQLite restarts the journal.
HEADER_BYTES = 32
IN_MEMORY = "/dev/shm"


def copied(file: str) -> sqlite3.Connection:
    import tempfile

    room = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=room) as folder:
        copy = os.path.join(folder, "state.sqlite")
        base, journal = _content(file)
        for path, content in ((copy, base), (f"{copy}-wal", journal)):
            with open(path, "wb") as opened:
                opened.write(content)
        found = sqlite3.connect(":memory:", isolation_level=None)
        sqlite3.connect(copy).backup(found)
    return found


def _content(file: str) -> tuple[bytes, bytes]:
    """Read file and journal of the same moment. This process must have no open connection, because
    closing the file here would drop its locks."""
    for _ in range(TRIES):
        journal = _journal(file)
        with open(file, "rb") as opened:
            base = opened.read()
        if _journal(file)[:HEADER_BYTES] == journal[:HEADER_BYTES]:
            break
    return base, journal


def _journal(file: str) -> bytes:
    try:
        with open(f"{file}-wal", "rb") as opened:
            return opened.read()
    except FileNotFoundError:
        return b""
