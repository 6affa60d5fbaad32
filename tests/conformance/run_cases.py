"""Runs cases by hand.

    python tests/conformance/run_cases.py slurm|box|flat [words…]  prints their transcripts
    python tests/conformance/run_cases.py record [words…]          records those of the real Slurm
    python tests/conformance/run_cases.py compare [words…]         box against what is recorded
    python tests/conformance/run_cases.py compare-flat [words…]    the same in flat mode
    python tests/conformance/run_cases.py compare-warm [words…]    the same with the fast start

Words choose the cases whose group or name contains any of them. Without words, all cases run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness import cases, clusters, differences, lanes

KINDS = {
    "slurm": clusters.RealSlurm,
    "record": clusters.RealSlurm,
    "box": clusters.Box,
    "compare": clusters.Box,
    "flat": lambda: clusters.Box(mode="flat"),
    "compare-flat": lambda: clusters.Box(mode="flat"),
    "compare-warm": lambda: clusters.Box(warm=True),
}


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in KINDS:
        sys.exit(__doc__)
    what, *words = sys.argv[1:]
    chosen = [
        case for case in cases.read_cases() if not words or any(word in case.id for word in words)
    ]
    begin = time.monotonic()
    running = lanes.Lanes(
        KINDS[what], chosen, count=1 if what == "compare-warm" else 4, accepts=accepts(what)
    )
    differing = 0
    try:
        for case in chosen:
            differing += show(what, case, running.transcript(case))
    finally:
        running.close()
    print(f"{len(chosen)} cases, {differing} differ, {time.monotonic() - begin:.0f} s")


def accepts(what: str) -> Callable[[cases.Case, str], bool]:
    """As in the test suite, repeat a case once if its transcript differs."""
    if not what.startswith("compare"):
        return lambda case, text: True
    return lambda case, text: differences.judge(case.name, recorded(case), text) == ([], [])


def recorded(case: cases.Case) -> str:
    return cases.read_recorded(case.group).get(case.name, "")


def show(what: str, case: cases.Case, transcript: str) -> bool:
    if what == "record":
        before = cases.read_recorded(case.group).get(case.name)
        cases.write_recorded(case.group, {case.name: transcript})
        if before is None:
            print(f"\n{cases.MARK}{case.id}\n{transcript}")
        elif before.rstrip("\n") != transcript.rstrip("\n"):
            print(f"\n{cases.MARK}{case.id} (changed)")
            print(*differences.changes(before, transcript), sep="\n---\n")
            return True
    elif what.startswith("compare"):
        unknown, stale = differences.judge(case.name, recorded(case), transcript)
        if unknown or stale:
            print(f"\n{cases.MARK}{case.id}")
            print(*unknown, *(f"listed, but not so: {entry}" for entry in stale), sep="\n---\n")
            return True
    else:
        print(f"{cases.MARK}{case.id}\n{transcript}")
    return False


if __name__ == "__main__":
    main()
