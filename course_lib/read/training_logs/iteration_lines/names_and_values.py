"""The fields of one iteration line: `name: value | name: value |` in any order, any subset.

This is the definition; `many_lines.py` reads the same from many lines at once, once the first line
of each form was taken apart here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

HEAD = re.compile(rb"iteration\s{0,20}(\d{1,15})\s{0,4}/\s{0,20}(\d{1,15})(?=[\s|,]|$)")
NUMBER = re.compile(
    rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?(?!\d|,\d|\.[\d#]|#|[dD][+-]?\d)|"
    rb"[+-]?(?:nan|NaN|NAN|(?:inf|Inf)(?:inity)?|INF)(?!\w)"
)
"""Not the beginning of one: `3,5`, `12,345.6`, `1.#QNAN` and `3.5D+00` are left alone."""

_BARE_NUMBER = re.compile(rb"[+-]?[\d.][\d.eE+-]{0,40}")
_NO_LETTERS = bytes(byte for byte in range(256) if not bytes([byte]).isalpha())

KNOWN: dict[str, tuple[str, float]] = {
    "elapsed time per iteration (ms)": ("elapsed_ms", 1.0),
    "elapsed time per iteration (s)": ("elapsed_ms", 1000.0),
    "elapsed time per iteration": ("elapsed_ms", 1.0),
    "train_step_timing in s": ("elapsed_ms", 1000.0),
    "learning rate": ("learning_rate", 1.0),
    "lr": ("learning_rate", 1.0),
    "lm loss": ("lm_loss", 1.0),
    "lm-loss": ("lm_loss", 1.0),
    "loss": ("lm_loss", 1.0),
    "reduced_train_loss": ("lm_loss", 1.0),
    "number of skipped iterations": ("skipped_iterations", 1.0),
    "number of nan iterations": ("nan_iterations", 1.0),
    "samples per second": ("samples_per_second", 1.0),
    "tokens per gpu per second (tgs)": ("tokens_per_second_per_device", 1.0),
    "tokens per gpu per second(tgs)": ("tokens_per_second_per_device", 1.0),
    "tokens per gpu per second": ("tokens_per_second_per_device", 1.0),
    "tokens_per_sec_per_gpu": ("tokens_per_second_per_device", 1.0),
    "tokens/sec/gpu": ("tokens_per_second_per_device", 1.0),
    "throughput per gpu (tflop/s/gpu)": ("tflops_per_device", 1.0),
    "throughput (tflop/s/gpu)": ("tflops_per_device", 1.0),
    "tps": ("tokens_per_second_per_device", 1.0),
    "tflops": ("tflops_per_device", 1.0),
    "tflops per gpu": ("tflops_per_device", 1.0),
    "tflop/s/gpu": ("tflops_per_device", 1.0),
}
"""Printed name in lower case -> column, and the factor to its unit."""

_UNITS = (("(ms)", "ms"), ("(s)", "s"), ("(mb)", "mb"), ("(gb)", "gb"), ("(w)", "w"))
MOST_EXTRA_COLUMNS = 100
"""A log of random bytes must not make a table of a million columns."""


@lru_cache(maxsize=4096)
def column_of(name: bytes) -> tuple[str, float]:
    text = " ".join(name.decode("utf-8", "replace").split()).lower()
    if text in KNOWN:
        return KNOWN[text]
    for printed, unit in _UNITS:
        text = text.replace(printed, unit)
    return re.sub(r"[^a-z0-9]+", "_", text).strip("_")[:60] or "unnamed", 1.0


@dataclass(frozen=True)
class Field:
    column: str
    factor: float
    start: int
    end: int


def fields_of(tail: bytes) -> list[Field] | None:
    """Fields of a line from its word `iteration` on; None where it is no iteration line."""
    head = HEAD.match(tail)
    if head is None:
        return None
    found = [
        Field("iteration", 1.0, *head.span(1)),
        Field("total_iterations", 1.0, *head.span(2)),
    ]
    taken = {"iteration", "total_iterations"}
    start = head.end()
    for part in tail[start:].split(b"|"):
        name, value, place = _name_and_value(part)
        number = NUMBER.match(value)
        column, factor = column_of(name) if number else ("", 1.0)
        if number and name and column not in taken:
            taken.add(column)
            found.append(Field(column, factor, start + place, start + place + number.end()))
        start += len(part) + 1
    return found


def _name_and_value(part: bytes) -> tuple[bytes, bytes, int]:
    """What stands between two bars, and where the value begins. The first versions wrote no
    colon."""
    name, colon, value = part.partition(b":")
    if colon:
        value = value.lstrip()
        place, value = len(part) - len(value), value.rstrip()
    else:
        part = part.rstrip()
        value = part[max(map(part.rfind, (b" ", b"\t"))) + 1 :]
        place = len(part) - len(value)
        name, value = part[:place], value if _BARE_NUMBER.fullmatch(value) else b""
    name = name.lstrip(_NO_LETTERS).rstrip()
    return (name, value, place) if len(name) <= 81 and len(value) <= 80 else (b"", b"", 0)


def values_of(tail: bytes) -> dict[str, float] | None:
    fields = fields_of(tail)
    if fields is None:
        return None
    return {part.column: float(tail[part.start : part.end]) * part.factor for part in fields}
