"""Results of a part, in a form for reports and other programs."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

PASSED, FAILED, REHEARSED, OUT_OF_TIME = "passed", "failed", "rehearsed", "out of time"
UNFINISHED = "unfinished"
RESULT = "result.json"


@dataclass
class Notes:
    """Results of a part. Its `folder` keeps files for lessons, and after each line all results so
    far, because the part may be ended at any time."""

    rehearse: bool
    folder: Path
    facts: dict[str, Any] = field(default_factory=dict)
    checks: list[dict[str, Any]] = field(default_factory=list)

    def fact(self, name: str, value: Any) -> None:
        self.facts[name] = value
        print(f"{name}: {value}", flush=True)
        self.keep(UNFINISHED)

    def check(self, what: str, ok: Any, found: Any = "") -> None:
        self.checks.append({"what": what, "ok": bool(ok), "found": str(found)})
        print(f"{'ok' if ok else 'NOT SO'}: {what} ({found})", flush=True)
        self.keep(UNFINISHED)

    def keep(self, status: str, error: str = "") -> None:
        found = {"status": status, "facts": self.facts, "checks": self.checks, "error": error}
        place = self.folder / RESULT
        partial = place.with_suffix(".partial")
        partial.write_text(json.dumps(found, indent=1, default=str) + "\n", encoding="utf-8")
        partial.replace(place)


@dataclass(frozen=True)
class Result:
    part: str
    status: str
    elapsed_s: float
    facts: dict[str, Any] = field(default_factory=dict)
    checks: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""

    @property
    def good(self) -> bool:
        return self.status in (PASSED, REHEARSED)


def write(notes: Notes, work: Callable[[Notes], None]) -> bool:
    """Run a part. A part without checks has not passed. Facts survive an error."""
    error = ""
    try:
        work(notes)
    except Exception:
        error = traceback.format_exc()
        print(error, flush=True)
    good = not error and bool(notes.checks) and all(check["ok"] for check in notes.checks)
    notes.keep((REHEARSED if notes.rehearse else PASSED) if good else FAILED, error)
    return good


def read(part: str, folder: Path, elapsed_s: float, otherwise: str, output: str) -> Result:
    """Read a part's result; `otherwise` is the status of an unfinished part, with its output."""
    path = folder / RESULT
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if found.get("status", UNFINISHED) == UNFINISHED:
        found.update(status=otherwise, error=output)
    return Result(part, elapsed_s=elapsed_s, **found)


def as_json(results: list[Result], about: dict[str, Any]) -> str:
    return json.dumps({**about, "parts": [asdict(result) for result in results]}, indent=1) + "\n"
