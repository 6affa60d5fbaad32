"""How `course` ends when something went wrong: a sentence on the terminal, never a traceback."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TextIO

USAGE_ERROR, INTERRUPTED = 2, 130
TRACEBACKS_KEPT = 20


def tell(command: str, error: BaseException) -> int:
    """Says what went wrong; the exit code. An error that nobody expected goes to a file."""
    from course_lib.lab.errors import LabError

    if isinstance(error, LabError):
        return refuse(f"course {command}: {error}")
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):  # `course log dp4 | head`
        return 0
    cause = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    if isinstance(error, OSError) and error.strerror:
        place = f": {error.filename}" if error.filename else ""
        cause = f"{error.strerror}{place}"
    return refuse(f"course {command}: {cause}. {_what_to_do(error)}")


def refuse(text: str) -> int:
    """A terminal that is gone is told nothing."""
    from course_lib.words import told

    with contextlib.suppress(OSError):
        print(told(text), file=sys.stderr)
    return USAGE_ERROR


def _what_to_do(error: BaseException) -> str:
    file = keep(error)
    where = f"the traceback is in {file}" if file else "no traceback could be kept"
    if isinstance(error, OSError):
        return f"Mend that and try again; {where}"
    return f"This is a fault of the course: `course doctor` may know more, and {where}"


def keep(error: BaseException) -> Path | None:
    """The file with the traceback, below the user's state folder; None where it cannot be made."""
    import time
    import traceback

    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    try:
        folder = Path(base).expanduser() / "course" / "tracebacks"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for old in sorted(folder.glob("*.txt"))[: -TRACEBACKS_KEPT + 1]:
            old.unlink(missing_ok=True)
        file = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
        text = " ".join(map(repr, sys.argv)) + "\n" + "".join(traceback.format_exception(error))
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as out:
            out.write(text)
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return None
    return file


def any_text_can_be_written() -> None:
    """In a terminal whose encoding lacks ✓ or é, a sign in their place, not an error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace" if stream is sys.stderr else "replace")


def flush() -> None:
    """What is still to be written meets a full disk or a closed pipe here, and not after the end of
    the program, where Python itself would say so."""
    if sys.stdout is None:  # it was closed before we started
        return
    try:
        sys.stdout.flush()
    except OSError:
        _write_nowhere(sys.stdout)
        raise


def _write_nowhere(stream: TextIO) -> None:
    """What it still holds would be tried again at the end of the program."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
