"""Pieces of logs: tracebacks, and lines of iterations."""

from __future__ import annotations


def traceback(last: str, before: str = "") -> str:
    lines = (
        "Traceback (most recent call last):",
        '  File "/a/b.py", line 3, in f',
        "    g()",
        last,
    )
    return "".join(f"{before}{line}\n" for line in lines)


def steps(first: int, last: int, total: int = 9, before: str = "", loss: str = "2.0") -> str:
    return "".join(
        f"{before} iteration {n}/ {total} | elapsed time per iteration (ms): 5.0 | "
        f"lm loss: {loss} | number of skipped iterations: 0 | number of nan iterations: 0 |\n"
        for n in range(first, last + 1)
    )
