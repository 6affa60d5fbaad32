"""What one rank of a trial has seen, line by line: whatever ends the rank, the lines are there.

verdict/rank<R>.jsonl    one object a line, `event` says what happened
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any


class Notes:
    def __init__(self, rank: int) -> None:
        folder = Path(os.environ.get("COURSE_RUN_DIR") or ".") / "verdict"
        folder.mkdir(parents=True, exist_ok=True)
        self.file = (folder / f"rank{rank}.jsonl").open("w", encoding="utf-8")
        self.owner = os.getpid()
        self.lock = threading.RLock()  # what is thrown away meanwhile may have a word too
        self.place: dict[str, Any] = {}
        """Number of ranks and case that are tried now; part of every line."""

    def write(self, event: str, **fields: Any) -> None:
        if os.getpid() != self.owner:  # a child that the learner's code has forked ends here
            os._exit(0)
        line = json.dumps({"event": event, **self.place, **fields}, default=str)
        with self.lock:
            self.file.write(line + "\n")
            self.file.flush()
