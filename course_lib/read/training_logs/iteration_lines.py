"""Fields of an iteration line: `name: value | name: value |` in any order, any subset.

`fields_of` is the definition. `Form` reads further lines with the same names by one regular
expression, several times faster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from course_lib.read import prefix
from course_lib.read.messages import N_

NEEDLES = (b"elapsed time per iteration", b"train_step_timing in s", b"consumed samples:")
HEAD = re.compile(rb"iteration\s{0,20}(\d{1,15})\s{0,4}/\s{0,20}(\d{1,15})(?=[\s|,]|$)")
# Never the beginning of a longer number: `3,5`, `12,345.6`, `1.#QNAN`, `3.5D+00` do not match.
NUMBER = re.compile(
    rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?(?!\d|,\d|\.[\d#]|#|[dD][+-]?\d)|"
    rb"[+-]?(?:nan|NaN|NAN|(?:inf|Inf)(?:inity)?|INF)(?!\w)"
)
_BARE_NUMBER = re.compile(rb"[+-]?[\d.][\d.eE+-]{0,40}")
_NO_LETTERS = bytes(byte for byte in range(256) if not bytes([byte]).isalpha())

# Printed name in lower case -> column, and the factor to its unit.
KNOWN: dict[str, tuple[str, float]] = {
    "elapsed time per iteration (ms)": ("elapsed_ms", 1.0),
    "elapsed time per iteration (s)": ("elapsed_ms", 1000.0),
    "elapsed time per iteration": ("elapsed_ms", 1.0),
    "train_step_timing in s": ("elapsed_ms", 1000.0),
    "learning rate": ("learning_rate", 1.0),
    "lr": ("learning_rate", 1.0),
    N_("lm loss"): ("lm_loss", 1.0),
    "lm-loss": ("lm_loss", 1.0),
    "loss": ("lm_loss", 1.0),
    "reduced_train_loss": ("lm_loss", 1.0),
    "number of skipped iterations": ("skipped_iterations", 1.0),
    "number of nan iterations": ("nan_iterations", 1.0),
    N_("samples per second"): ("samples_per_second", 1.0),
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
_UNITS = (("(ms)", "ms"), ("(s)", "s"), ("(mb)", "mb"), ("(gb)", "gb"), ("(w)", "w"))
_LONGEST_LINE_BYTES = 20_000


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
    """Return the fields of a line from its word `iteration` on; None for any other line."""
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
    """Return name and value of a field between two bars, and the value's position. The first
    versions wrote no colon."""
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


@dataclass(frozen=True)
class Row:
    """Row of an iteration; `head` is the text before the word `iteration`."""

    head: bytes
    columns: tuple[str, ...]
    values: list[float]


def rows_of(line: bytes, following: bytes = b"") -> Iterator[Row]:
    """Yield the iterations on a line. Several processes may have written into it, or a launcher cut
    it in two; then `following`, the next line, completes it."""
    line = prefix.without_colours(line[:_LONGEST_LINE_BYTES]).rstrip()
    heads = list(HEAD.finditer(line))
    for number, head in enumerate(heads):
        stop = heads[number + 1].start() if number + 1 < len(heads) else len(line)
        tail = line[head.start() : stop]
        if stop == len(line) and not tail.endswith(b"|"):
            tail = _joined(tail, following[:2000])
        before = line[heads[number - 1].end() if number else 0 : head.start()]
        fields = fields_of(tail) or []
        yield Row(
            before[before.rfind(b"|") + 1 :] if number else before,
            tuple(field.column for field in fields),
            [float(tail[field.start : field.end]) * field.factor for field in fields],
        )


def _joined(tail: bytes, following: bytes) -> bytes:
    """Return the tail with the next line, if that completes it."""
    rest = following[prefix.label_length(following) :]
    if b"|" not in rest or HEAD.search(rest):
        return tail
    joined = (tail + rest).rstrip()
    alone, together = fields_of(tail), fields_of(joined)
    grown = alone is not None and together is not None and len(together) > len(alone)
    return joined if grown and joined.endswith(b"|") else tail


@dataclass(frozen=True)
class Form:
    """Pattern of whole lines, from their word `iteration` on, with the same field names."""

    pattern: re.Pattern[bytes]
    columns: tuple[str, ...]
    factors: tuple[float, ...]


def form_of(line: bytes) -> Form | None:
    """Return the form; None if the line is cut, coloured or written by several processes."""
    tail = line[line.find(b"iteration") :]
    fields = fields_of(tail)
    whole = tail.rstrip().endswith(b"|") and b"\x1b" not in line and len(HEAD.findall(line)) == 1
    if fields is None or not whole:
        return None
    pattern, end = HEAD.pattern, fields[1].end
    for field in fields[2:]:
        pattern += _literal(tail[end : field.start]) + b"(" + NUMBER.pattern + b")"
        end = field.end
    pattern += _literal(tail[end:]) + rb"\s*"
    columns, factors = zip(*((field.column, field.factor) for field in fields), strict=True)
    return Form(re.compile(pattern), columns, factors)


def _literal(gap: bytes) -> bytes:
    """Return a pattern for the text between two numbers, with any number of blanks between
    words."""
    words = gap.split()
    before = rb"\s*" if gap[:1].isspace() else b""
    after = (rb"\s*" if words[-1][-1:] in b":|/" else rb"\s+") if gap[-1:].isspace() else b""
    return before + rb"\s+".join(map(re.escape, words)) + after
