"""The fields of an iteration line: `name: value | name: value |` in any order, any subset.

Lines of one program differ in their digits only. The first line of a shape is taken apart with a
regular expression; all others of the same shape are then read as a matrix of digits.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

HEAD = re.compile(rb"iteration\s{0,20}(\d{1,15})\s{0,4}/\s{0,20}(\d{1,15})(?=[\s|,]|$)")
_FIELD = re.compile(
    rb"([A-Za-z][^|:\n]{0,80}?)"
    rb"(?:\s{0,8}:\s{0,20}([^|\n]{0,80}?)|\s{1,20}([+-]?[\d.][\d.eE+-]{0,40}))\s{0,20}(?=\||$)"
)
"""The first versions wrote no colon."""
NUMBER = re.compile(
    rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?|[+-]?(?:nan|inf|NaN|Inf|NAN|INF)"
)
_PLAIN = re.compile(rb"([+-]?)(\d{1,12})(?:\.(\d{0,12}))?(?:[eE]([+-])(\d{1,2}))?")

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
    for match in _FIELD.finditer(tail, head.end()):
        column, factor = column_of(match[1])
        which = 3 if match[2] is None else 2
        if column not in taken and NUMBER.match(match[which]):
            taken.add(column)
            begin = match.start(which)
            found.append(Field(column, factor, begin, begin + _number_length(match[which])))
    return found


def _number_length(value: bytes) -> int:
    match = NUMBER.match(value)
    return match.end() if match else 0


def values_of(tail: bytes) -> dict[str, float] | None:
    fields = fields_of(tail)
    if fields is None:
        return None
    return {part.column: _value(tail[part.start : part.end], part.factor) for part in fields}


def _value(text: bytes, factor: float) -> float:
    value = float(text)
    return value if factor == 1.0 else value * factor


_LARGEST_PRODUCT = 100_000
_POWERS: Floats = np.array([10.0**power for power in range(23)])
_TO_SHAPE = bytes(48 if 48 <= byte <= 57 else byte for byte in range(256))


@dataclass(frozen=True)
class Shape:
    """How to read all lines that agree in everything but their digits.

    `weights` turns the digits into one number per field, then one exponent for each of the fields
    in `scientific`; `places` counts the decimals.
    """

    columns: tuple[str, ...]
    digits: npt.NDArray[np.int64]
    weights: Floats
    scientific: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    factors: Floats

    def read(self, characters: npt.NDArray[np.uint8]) -> Floats | None:
        """`characters`: those at `digits`, one line per row. None where a value is beyond exact
        arithmetic, or where there is no digit."""
        digits = (characters - np.uint8(48)).astype(np.float64)
        if digits.max(initial=0.0) > 9:
            return None
        # Small pieces: larger ones make the linear algebra library start threads that only wait.
        step = max(1, _LARGEST_PRODUCT // self.weights.size)
        pieces = [digits[row : row + step] @ self.weights for row in range(0, len(digits), step)]
        numbers = np.concatenate(pieces) if len(pieces) != 1 else pieces[0]
        value = numbers[:, : len(self.columns)] / _POWERS[self.places]
        for place, number in enumerate(self.scientific.tolist()):
            power = numbers[:, len(self.columns) + place].astype(np.int64) - self.places[number]
            if np.abs(power).max(initial=0) > len(_POWERS) - 1:
                return None
            up, down = _POWERS[np.maximum(power, 0)], _POWERS[np.maximum(-power, 0)]
            value[:, number] = numbers[:, number] * up / down
        return np.asarray(value * self.factors, np.float64)


def shape_of(tail: bytes) -> Shape | None:
    """None where a field is not a plain decimal number (`nan`, very long …)."""
    fields = fields_of(tail)
    if fields is None:
        return None
    matches = [_PLAIN.fullmatch(tail[part.start : part.end]) for part in fields]
    plain = [match for match in matches if match is not None]
    if len(plain) < len(matches) or any(_digits(match) > 15 for match in plain):
        return None
    weight = np.zeros((len(tail), len(fields)))
    exponent = np.zeros((len(tail), len(fields)))
    for number, (part, match) in enumerate(zip(fields, plain, strict=True)):
        _spread(weight[:, number], exponent[:, number], part.start, match)
    scientific = [number for number, match in enumerate(plain) if match[5]]
    used = np.flatnonzero(weight.any(axis=1) | exponent.any(axis=1))
    signs = [-1.0 if match[1] == b"-" else 1.0 for match in plain]
    return Shape(
        columns=tuple(part.column for part in fields),
        digits=used,
        weights=np.hstack([weight[used] * signs, exponent[used][:, scientific]]),
        scientific=np.array(scientific, np.int64),
        places=np.array([len(match[3] or b"") for match in plain], np.int64),
        factors=np.array([part.factor for part in fields]),
    )


def _digits(match: re.Match[bytes]) -> int:
    return len(match[2]) + len(match[3] or b"")


def _spread(weight: Floats, exponent: Floats, start: int, match: re.Match[bytes]) -> None:
    places = [*range(*match.span(2)), *(range(*match.span(3)) if match[3] else ())]
    for power, place in enumerate(reversed(places)):
        weight[start + place] = 10.0**power
    if match[5]:
        sign = -1.0 if match[4] == b"-" else 1.0
        for power, place in enumerate(reversed(range(*match.span(5)))):
            exponent[start + place] = sign * 10.0**power


@dataclass
class Decoder:
    """Reads many lines at once; remembers the shapes it has seen."""

    shapes: dict[bytes, Shape | None] = field(default_factory=dict)

    def read(self, tails: Sequence[bytes]) -> dict[str, Floats]:
        """Columns over all tails, NaN where a line has no such field."""
        groups: dict[bytes, list[int]] = defaultdict(list)
        for row, tail in enumerate(tails):
            groups[tail.translate(_TO_SHAPE)].append(row)
        table: dict[str, Floats] = {"iteration": np.full(len(tails), np.nan)}
        for rows in groups.values():
            self._group(table, tails, rows)
        return table

    def _group(self, table: dict[str, Floats], tails: Sequence[bytes], rows: list[int]) -> None:
        lines = [tails[row] for row in rows]
        text = np.frombuffer(b"".join(lines), np.uint8).reshape(len(lines), -1)
        shape = self.shape(lines[0])
        matrix = shape.read(text[:, shape.digits]) if shape else None
        if shape is not None and matrix is not None:
            for number, name in enumerate(shape.columns):
                if (column := self._column(table, name, len(tails))) is not None:
                    column[rows] = matrix[:, number]
            return
        for row, line in zip(rows, lines, strict=True):
            for name, value in (values_of(line) or {}).items():
                if (column := self._column(table, name, len(tails))) is not None:
                    column[row] = value

    def shape(self, line: bytes) -> Shape | None:
        """How to read lines like this one; None where they must be read one by one."""
        key = line.translate(_TO_SHAPE)
        if key not in self.shapes:
            if len(self.shapes) > 2000:
                self.shapes.clear()
            self.shapes[key] = shape_of(line)
        return self.shapes[key]

    @staticmethod
    def _column(table: dict[str, Floats], name: str, rows: int) -> Floats | None:
        if name not in table:
            if len(table) >= MOST_EXTRA_COLUMNS:
                return None
            table[name] = np.full(rows, np.nan)
        return table[name]
