"""Fields of an iteration line: `name: value | name: value |` in any order, any subset."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
# Field whose value is more than a number. The first versions wrote no colon.
_FIELD = re.compile(
    rb"([^:]{1,100})(?::\s*|(?<=\s)(?=\S+\s*$))(" + NUMBER.pattern + rb")", re.DOTALL
)

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
_NO_LETTERS = "".join(map(chr, range(ord("a")))) + "{|}~"
_UNITS = (("(ms)", "ms"), ("(s)", "s"), ("(mb)", "mb"), ("(gb)", "gb"), ("(w)", "w"))
_LONGEST_LINE_BYTES = 20_000


@lru_cache(maxsize=4096)
def column_of(name: bytes) -> tuple[str, float]:
    """Return the column of a printed name, "" for a name without letters, and the factor."""
    text = " ".join(name.decode("utf-8", "replace").split()).lower()
    text = text.lstrip(_NO_LETTERS)
    if text in KNOWN:
        return KNOWN[text]
    for printed, unit in _UNITS:
        text = text.replace(printed, unit)
    return re.sub(r"[^a-z0-9]+", "_", text).strip("_")[:60], 1.0


def fields_of(tail: bytes) -> dict[str, float] | None:
    """Return the fields of a line from its word `iteration` on; None for any other line."""
    head = HEAD.match(tail)
    if head is None:
        return None
    found = {"iteration": float(head[1]), "total_iterations": float(head[2])}
    for part in tail[head.end() :].split(b"|"):
        name, _, value = part.partition(b":")
        try:
            number = float(value)
        except ValueError:
            if (field := _FIELD.match(part)) is None:
                continue
            name, number = field[1], float(field[2])
        column, factor = column_of(name)
        if column:
            found.setdefault(column, number * factor)
    return found


def rows_of(line: bytes, following: bytes = b"") -> Iterator[tuple[dict[str, float], bytes]]:
    """Yield the iterations on a line, each with the text before it. Several processes may have
    written into it, or a launcher cut it in two; then `following`, the next line, completes it."""
    line = prefix.without_colours(line[:_LONGEST_LINE_BYTES]).rstrip()
    heads = list(HEAD.finditer(line))
    for number, head in enumerate(heads):
        stop = heads[number + 1].start() if number + 1 < len(heads) else len(line)
        tail = line[head.start() : stop]
        if stop == len(line) and not tail.endswith(b"|"):
            tail = _joined(tail, following[:2000])
        before = line[heads[number - 1].end() if number else 0 : head.start()]
        yield fields_of(tail) or {}, before[before.rfind(b"|") + 1 :] if number else before


def _joined(tail: bytes, following: bytes) -> bytes:
    """Return the tail with the next line, if that completes it."""
    rest = following[prefix.label_length(following) :]
    if b"|" not in rest or HEAD.search(rest):
        return tail
    joined = (tail + rest).rstrip()
    alone, together = fields_of(tail), fields_of(joined)
    grown = alone is not None and together is not None and len(together) > len(alone)
    return joined if grown and joined.endswith(b"|") else tail
