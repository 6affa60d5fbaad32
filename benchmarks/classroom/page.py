"""What it costs to watch a class: processor time of the page's process and of all that it starts.

    python benchmarks/classroom/page.py [learners] [seconds]

Thirty learners by default, each of whose files is written anew every ten seconds, as by cells that
end; one window asks for the table every two seconds, and every ten the page asks for the queue of a
cluster that answers (what Jupyter spends on handing pages on is not in it). The goal is less than
5 % of a core. Beside it stands what a learner's kernel pays to write the file, and what the reader
pays where it remembers nothing.
"""

from __future__ import annotations

import http.client
import json
import os
import pwd
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from course_lib.teach.classroom import folder, sharing, snapshot
from course_lib.teach.classroom.roster import Reader
from course_lib.teach.classroom.snapshot import Exercise, Snapshot

REFRESH_S, REWRITTEN_S = 2.0, 10.0
GOAL_PERCENT = 5.0
UIDS = [one.pw_uid for one in pwd.getpwall()] + list(range(61000, 61200))
"""Accounts with a name first: a cluster's queue is asked about those alone."""


def content(number: int) -> bytes:
    """Of somebody in the middle of the course."""
    known = sorted(snapshot.known_exercises())
    hint = "the number of bytes is that of all ranks together, sent once"
    done = {name: Exercise(is_solved=True, tries=3, hint=hint, times_met=2) for name in known}
    done[known[number]] = Exercise(tries=5, hint=hint, times_met=4)
    now = time.time()
    return Snapshot(
        format=snapshot.FORMAT, lesson="07", active_unix_s=now, stuck_on=known[number],
        stuck_unix_s=now - 900, exercises=done,
    ).encoded()  # fmt: skip


def lay(place: Path, number: int) -> None:
    """As root for accounts of their own; else all are of one account, and read all the same."""
    new = place / f".{number}"
    uid = UIDS[number] if os.getuid() == 0 else os.getuid()
    new.write_bytes(content(number % len(snapshot.known_exercises())))
    os.chown(new, uid, -1)
    mark = "" if os.getuid() == 0 else f".{number:016x}"
    new.replace(place / f"{uid}{mark}.json")


def ask(path: Path) -> int:
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(path))
    connection.request("GET", "/table")
    return len(json.loads(connection.getresponse().read())["learners"])


def spent_s(pid: int) -> float:
    """Of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def watch(place: Path, path: Path, learners: int, seconds: float) -> tuple[float, int]:
    """Share of a core in percent, and how many rows the last table had."""
    environment = {**os.environ, folder.SETTING: str(place)}
    command = [sys.executable, "-m", "course_lib.teach.classroom.page", "--socket", str(path)]
    server = subprocess.Popen(command, env=environment)
    try:
        while not path.exists():
            time.sleep(0.05)
        ask(path)
        before_s, begin, turn = spent_s(server.pid), time.monotonic(), 0
        while (now := time.monotonic()) - begin < seconds:
            rows = ask(path)
            for _ in range(round(learners * REFRESH_S / REWRITTEN_S)):
                lay(place, turn % learners)
                turn += 1
            time.sleep(max(0.0, REFRESH_S - (time.monotonic() - now)))
        return 100 * (spent_s(server.pid) - before_s) / (time.monotonic() - begin), rows
    finally:
        server.terminate()
        server.wait()


def cpu_ms(action: object, rounds: int = 20) -> float:
    def once() -> float:
        begin = resource.getrusage(resource.RUSAGE_SELF)
        action()  # type: ignore[operator]
        end = resource.getrusage(resource.RUSAGE_SELF)
        return 1000 * (end.ru_utime - begin.ru_utime + end.ru_stime - begin.ru_stime)

    return statistics.median(once() for _ in range(rounds))


def main() -> None:
    learners = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    with tempfile.TemporaryDirectory() as name:
        place = folder_of_a_class(Path(name))
        for number in range(learners):
            lay(place, number)
        percent, rows = watch(place, Path(name) / "socket", learners, seconds)
        print(f"{rows} learners, one window, every {REFRESH_S:g} s for {seconds:g} s: "
              f"{percent:.2f} % of a core (goal: less than {GOAL_PERCENT:g} %)")  # fmt: skip
        reader = Reader(place)
        reader.read()
        print(f"a look at the folder: {cpu_ms(lambda: Reader(place).read()):.1f} ms of processor "
              f"anew, {cpu_ms(reader.read):.1f} ms where nothing has changed")  # fmt: skip
        one = Snapshot(format=snapshot.FORMAT)
        os.environ["COURSE_WORKSPACE"] = name
        spent_ms = cpu_ms(lambda: sharing.write(place, one))
        print(f"a learner's kernel, per file written: {spent_ms:.1f} ms")


def folder_of_a_class(inside: Path) -> Path:
    place = inside / "class"
    folder.make(place, "")
    return place


if __name__ == "__main__":
    main()
