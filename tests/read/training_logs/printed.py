"""Lines as a program prints them, and a log made of such text."""

from __future__ import annotations

from course_lib import read

LINE = (
    " iteration {n:8d}/     100 | consumed samples: {samples:12d} | "
    "elapsed time per iteration (ms): {ms:.1f} | learning rate: 5.822E-05 | "
    "global batch size:     8 | lm loss: {loss:.6E} | "
    "loss scale: 1.0 | grad norm: 1.303 | number of skipped iterations:   0 | "
    "number of nan iterations:   0 |\n"
)


def line(n: int, ms: float = 537.3, loss: float = 7.44895) -> str:
    return LINE.format(n=n, samples=8 * n, ms=ms, loss=loss)


def feed(text: str | bytes, piece_bytes: int | None = None) -> read.TrainingLog:
    data = text.encode() if isinstance(text, str) else text
    reader = read.TrainingReader()
    for start in range(0, len(data), piece_bytes or len(data) or 1):
        reader.feed(data[start : start + (piece_bytes or len(data))])
    reader.finish()
    return reader.result()
