"""Learners of a class: accounts of this machine by their numbers, which need no names."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec  # noqa: F401  # loaded before a learner is, who may not read this checkout

from course_lib.classroom import sharing, snapshot

FIRST_UID = 61001
# The group's number.
INSTRUCTORS = 60999


def at(minutes_ago: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(time.time() - 60 * minutes_ago))


@dataclass(frozen=True)
class Learner:
    uid: int
    workspace: Path

    def tries(self, exercise: str, minutes_ago: float, unmet: str = "") -> None:
        """Store a try as a check does."""
        line = {"exercise": exercise, "passed": not unmet, "unmet": unmet}
        self._notes("progress.jsonl", at(minutes_ago), line)

    def guesses(self, question: str, guess: float, measured: float, unit: str = "") -> None:
        """Store a guess as `predict` and `compare` do."""
        made = {"question": question, "guess": guess, "unit": unit}
        self._notes("guesses.jsonl", at(0), made)
        self._notes("guesses.jsonl", at(0), {"question": question, "measured": measured})

    def _notes(self, name: str, when: str, what: dict[str, object]) -> None:
        line = {"time": when, "learner": str(self.uid), **what}
        file = self.workspace / ".course" / name
        file.parent.mkdir(exist_ok=True)
        with file.open("a") as out:
            out.write(json.dumps(line) + "\n")
        os.chown(file.parent, self.uid, self.uid)
        os.chown(file, self.uid, self.uid)

    def does(self, action: Callable[[], object], *groups: int) -> str:
        """Run a function as this account, and return its error in one line."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            said = ""
            try:
                os.close(reader)
                os.setgroups(groups)
                os.setgid(self.uid)
                os.setuid(self.uid)
                os.environ["COURSE_WORKSPACE"] = str(self.workspace)
                os.environ["USER"] = os.environ["LOGNAME"] = str(self.uid)
                action()
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            os.write(writer, said.encode()[:4000])
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as file:
            said = file.read()
        os.waitpid(child, 0)
        return said

    def shares(self) -> None:
        said = self.does(lambda: sharing.share_progress(True))
        assert said == "", said


def learner(number: int, homes: Path) -> Learner:
    workspace = homes / f"learner{number}"
    workspace.mkdir(mode=0o700)
    os.chown(workspace, FIRST_UID + number, FIRST_UID + number)
    snapshot.known_exercises()
    return Learner(FIRST_UID + number, workspace)
