"""Lines of trainers that are no Megatron: DeepSpeed, Hugging Face, NeMo, epoch-based examples."""

from __future__ import annotations

import re

from course_lib.read.training_logs.iteration_lines.names_and_values import (
    HEAD,
    NUMBER,
    column_of,
    values_of,
)
from course_lib.read.training_logs.tables import Handler, LinePlace, Tables

_DEEPSPEED_OVERFLOW = re.compile(
    rb"OVERFLOW! Rank (\d{1,7}) Skipping step\. Attempted loss scale: ([\d.e+]{1,30}),"
    rb"(?: reducing to ([\d.e+]{1,30})| but hysteresis is (\d{1,9}))"
)
_APEX_OVERFLOW = re.compile(
    rb"Gradient overflow\. +Skipping step, loss scaler \d+ reducing loss scale to ([\d.e+\-]{1,30})"
)
_EPOCH = re.compile(
    rb"Time taken for epoch (\d{1,9}) is ([\d.e+\-]{1,30}) sec"
    rb"(?:, avg ([\d.e+\-]{1,30}) samples/sec)?"
)
_ASSIGNED = re.compile(
    rb"(Avg train loss|Avg val loss|Total validation time|RMSE of the 10 m wind|of persistence)"
    rb"[=:] *([\d.e+\-]{1,40}|nan|inf)"
)
_USAGE = re.compile(
    rb"(Memory usage after [\w ]{1,60}|[\w ]{0,40}memory high watermark)"
    rb"[:=] *([\d.]{1,30}) *([KMG]i?B)"
)
_DICTIONARY = re.compile(rb"\{('[\w/]{1,60}': [^{}\n]{1,3000})\}")
_PAIR = re.compile(rb"'([\w/]{1,60})': '?([^,'}\s]{1,60})")
_SPEED = re.compile(
    rb"Batch (\d{1,12}) Loss: ([\d.e+\-naif]{1,30}), "
    rb"Speed: ([\d.e+\-]{1,30}) samples/sec, lr: ([\d.e+\-]{1,30})"
)
_STEP = re.compile(
    rb"(?:^|[\s\]:|>])(?:step|iter)[: =]{1,3}(\d{1,12})\b[,:]?[ |]{0,4}([^\n]{0,600})"
)
_STEP_PAIR = re.compile(
    rb"([A-Za-z][\w/ ]{0,30}?)[:= ]{1,3}(\d{1,3}(?:,\d{3}){1,4}|[+\-\d.][\d.eE+\-]{0,30}|nan)"
    rb"(?![\d.]|,\d)(ms|s|%)?"
)
_BAR = re.compile(
    rb"(\d{1,12})/(?:\d{1,12}|\?) \[([^\[\]\r]{0,200}reduced_train_loss=[^\]\r]{0,600})"
)
_BAR_PAIR = re.compile(rb"(\w[\w ]{0,60})=([^,\]\s]{1,40})")
_TOTAL = re.compile(rb"model with total parameters: *(\d{1,20})")
_TO_MEBIBYTES = {b"KB": 1e3, b"MB": 1e6, b"GB": 1e9, b"KiB": 2**10, b"MiB": 2**20, b"GiB": 2**30}


def _number(text: bytes | None) -> float | None:
    return float(text) if text and NUMBER.fullmatch(text) else None


def _deepspeed_overflow(tables: Tables, text: bytes, place: LinePlace) -> None:
    for match in _DEEPSPEED_OVERFLOW.finditer(text):
        tables.overflows.add(
            iteration=place.iteration,
            rank=int(match[1]),
            loss_scale=_number(match[2]),
            new_loss_scale=_number(match[3]) if match[3] else _number(match[2]),
            hysteresis=int(match[4]) if match[4] else None,
            **{name: value for name, value in place.where.items()},
        )


def _apex_overflow(tables: Tables, text: bytes, place: LinePlace) -> None:
    for match in _APEX_OVERFLOW.finditer(text):
        scale = _number(match[1])
        before = scale * 2 if scale is not None else None
        values = {"iteration": place.iteration, "loss_scale": before, "new_loss_scale": scale}
        tables.overflows.add(**values, **place.where)


def _epoch(tables: Tables, text: bytes, place: LinePlace) -> None:
    for match in _EPOCH.finditer(text):
        tables.epochs.add(
            epoch=int(match[1]),
            elapsed_s=_number(match[2]),
            samples_per_second=_number(match[3]),
            **place.where,
        )


_EPOCH_COLUMN = {
    b"Avg train loss": "train_loss",
    b"Avg val loss": "validation_loss",
    b"Total validation time": "validation_s",
    b"RMSE of the 10 m wind": "wind_rmse_m_s",
    b"of persistence": "persistence_rmse_m_s",
}


def _of_epoch(tables: Tables, text: bytes, place: LinePlace) -> None:
    """Belongs to the last epoch that the same process finished."""
    for match in _ASSIGNED.finditer(text):
        name, value = _EPOCH_COLUMN[match[1]], _number(match[2])
        rows = tables.epochs.rows[-64:]
        mine = [row for row in rows if row["who"].printer == place.found.printer]
        if not mine or name in mine[-1]:
            tables.epochs.add(**place.where)
            mine = tables.epochs.rows[-1:]
        mine[-1][name] = value


def _usage(tables: Tables, text: bytes, place: LinePlace) -> None:
    for match in _USAGE.finditer(text):
        size_bytes = (_number(match[2]) or 0.0) * _TO_MEBIBYTES[match[3]]
        what = match[1].decode("utf-8", "replace").strip()
        column = "max_allocated_mib" if b"high watermark" in match[1] else "allocated_mib"
        unit = match[3].decode().lower()
        values = {column: size_bytes / 2**20, f"printed_{unit}": _number(match[2])}
        tables.memory.add(iteration=place.iteration, what=what, **values, **place.where)


def _dictionary(tables: Tables, text: bytes, place: LinePlace) -> None:
    """The dictionaries that the Hugging Face trainer prints."""
    for match in _DICTIONARY.finditer(text):
        values = {pair[1].decode(): _number(pair[2]) for pair in _PAIR.finditer(match[1])}
        if "loss" in values:
            _other(tables, place, {column_of(name.encode())[0]: v for name, v in values.items()})
        elif "eval_loss" in values:
            row = {"split": "validation", "name": "eval_loss", "lm_loss": values["eval_loss"]}
            tables.evaluations.add(iteration=place.iteration, **row, **place.where)
        elif "train_runtime" in values:
            tables.note("summary", match[0], place)


def _speed(tables: Tables, text: bytes, place: LinePlace) -> None:
    for match in _SPEED.finditer(text):
        values = {
            "iteration": _number(match[1]),
            "lm_loss": _number(match[2]),
            "samples_per_second": _number(match[3]),
            "learning_rate": _number(match[4]),
        }
        _other(tables, place, values)


def _step(tables: Tables, text: bytes, place: LinePlace) -> None:
    """`step:0, loss:5.45` and `iter 100: loss 2.4, time 12.3ms`."""
    for match in _STEP.finditer(text):
        values: dict[str, float | None] = {}
        for pair in _STEP_PAIR.finditer(match[2]):
            name, factor = column_of(pair[1] + (b" ms" if pair[3] == b"ms" else b""))
            name = "elapsed_ms" if name in ("time_ms", "dt_ms") else name
            if (value := _number(pair[2].replace(b",", b""))) is not None:
                values.setdefault(name, value * factor)
        if "lm_loss" in values or "train_loss" in values:
            values.setdefault("lm_loss", values.get("train_loss"))
            _other(tables, place, values | {"iteration": float(match[1])})


def _bar(tables: Tables, text: bytes, place: LinePlace) -> None:
    """The progress bar of Lightning, as NeMo 1 fills it."""
    for match in _BAR.finditer(text):
        values: dict[str, float | None] = {}
        for pair in _BAR_PAIR.finditer(match[2]):
            name, factor = column_of(pair[1])
            if (value := _number(pair[2])) is not None:
                values[name] = value * factor
        step = values.get("global_step")
        _other(tables, place, {"iteration": float(match[1]) if step is None else step, **values})


def _other(tables: Tables, place: LinePlace, values: dict[str, float | None]) -> None:
    """An iteration of a trainer that prints no Megatron line."""
    if "iteration" not in values:
        values = values | {"iteration": float(len(tables.others.rows) + 1)}
    tables.others.add(**values, **place.where)


def _untimed(tables: Tables, text: bytes, place: LinePlace) -> None:
    """An iteration line without its time, as authors of web pages cut them."""
    if b"elapsed time per iteration" not in text and (head := HEAD.search(text)):
        values = {name: value for name, value in (values_of(text[head.start() :]) or {}).items()}
        _other(tables, place, {**values})


def _total(tables: Tables, text: bytes, place: LinePlace) -> None:
    if match := _TOTAL.search(text):
        tables.total_parameters = int(match[1])


HANDLERS: dict[bytes, Handler] = {
    b"OVERFLOW! Rank ": _deepspeed_overflow,
    b"Gradient overflow.": _apex_overflow,
    b"NaN or Inf found": lambda tables, text, place: tables.note("nan", text, place),
    b"'learning_rate': ": _dictionary,
    b"'train_runtime': ": _dictionary,
    b"'eval_runtime': ": _dictionary,
    b"Time taken for epoch": _epoch,
    b"Avg train loss=": _of_epoch,
    b"  Avg val loss=": _of_epoch,
    b"Total validation time": _of_epoch,
    b"RMSE of the 10 m wind=": _of_epoch,
    b"Memory usage after": _usage,
    b"memory high watermark": _usage,
    b" samples/sec, lr:": _speed,
    b"reduced_train_loss=": _bar,
    b"model with total parameters": _total,
}
SHORT_HANDLERS: dict[bytes, Handler] = {
    b"consumed samples:": _untimed,
    b"Avg val loss=": _of_epoch,
    b"'loss': ": _dictionary,
    b"'eval_loss': ": _dictionary,
    b"step:": _step,
    b"step ": _step,
    b"iter ": _step,
}
"""Words too short for the fast search; looked for in the first part of a log only."""
