"""Search for processes: by number and start, by a mark in their environment, by descent."""

from __future__ import annotations

import contextlib
import os
import signal

FLAG_EXITING = 0x4
HAVE_PROC = os.path.exists("/proc/self/stat")


def stat(pid: int) -> list[bytes]:
    """Return the fields of /proc/<pid>/stat after the name, which may hold blanks."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


def ticks(pid: int) -> int:
    """Return a process's start in clock ticks, or 0 for no process or a zombie."""
    if HAVE_PROC:
        with contextlib.suppress(OSError, IndexError, ValueError):
            fields = stat(pid)
            return 0 if fields[0] in (b"Z", b"X") else int(fields[19])
        return 0
    import psutil

    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            return int(process.create_time() * 100)
    return 0


def is_ending(pid: int) -> bool:
    """Return True for a dead or dying process. A namespace's first process dies last in it."""
    if not HAVE_PROC:
        return not ticks(pid)
    try:
        fields = stat(pid)
    except OSError:
        return True
    return fields[0] in (b"Z", b"X") or bool(int(fields[6]) & FLAG_EXITING)


def note(path: str, pids: list[int]) -> None:
    """Write down processes for `noted`, or nothing on a full disk; their mark
    identifies them too."""
    try:
        with open(path, "w") as file:
            file.writelines(f"{pid} {ticks(pid)}\n" for pid in pids)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(path)


def noted(path: str) -> list[int]:
    """Return the noted processes that still live, without new processes of the same number."""
    living = []
    with contextlib.suppress(OSError, ValueError), open(path) as file:
        for line in file:
            pid, started = map(int, line.split())
            if started and ticks(pid) == started:
                living.append(pid)
    return living


def marked(mark: str) -> set[int]:
    """Return this user's processes that started with COURSE_BOX_JOB=<mark> in their environment."""
    if not mark:
        return set()
    wanted = os.fsencode(f"COURSE_BOX_JOB={mark}")
    if HAVE_PROC:
        return {pid for pid in _pids() if wanted in environment(pid)}
    import psutil

    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("COURSE_BOX_JOB") == mark:
                found.add(process.pid)
    return found - {os.getpid()}


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def environment(pid: int) -> list[bytes]:
    """Return the variables with which a process started, or none of a zombie."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        return file.read().split(b"\0") if ticks(pid) else []
    return []


def kill(pids: list[int], number: int = signal.SIGKILL) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def descendants(root: int) -> list[int]:
    """Return all descendants of a process, parents before children, without zombies."""
    if not HAVE_PROC:
        import psutil

        return [process.pid for process in psutil.Process(root).children(recursive=True)]
    children: dict[int, list[int]] = {}
    for pid in _pids():
        with contextlib.suppress(OSError, IndexError):
            fields = stat(pid)
            if fields[0] not in (b"Z", b"X"):
                children.setdefault(int(fields[1]), []).append(pid)
    found = list(children.get(root, []))
    for pid in found:  # the list grows during the loop
        found += children.get(pid, [])
    return found
