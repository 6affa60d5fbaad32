"""Handlers of other lines in training logs: each kind adds to the tables.

First come Megatron-LM and Megatron-DeepSpeed, then DeepSpeed, Hugging Face, NeMo and epoch-based
examples, some of which print iterations in their own form."""

from __future__ import annotations

import re

from course_lib.read import prefix
from course_lib.read.training_logs.iteration_lines import NUMBER, column_of, rows_of
from course_lib.read.training_logs.result import Handler, Line, Tables

_MEMORY = re.compile(
    rb"(?:\[Rank (\d{1,7})\] )?\(?after (\d{1,12}) iterations\)? memory \((\w{2,3})\)"
    rb"((?: ?\| ?[\w \-]{1,60}: *[\d.]{1,40})*)(?: ?\|? ?[\w \-]{0,40}:? *)?"
)
_PART = re.compile(rb"([\w][\w \-]{0,60}): *([\d.]{1,40})")
_MEBIBYTES = {b"MB": 1.0, b"MiB": 1.0, b"GiB": 1024.0, b"GB": 1e9 / 2**20}
_MEMORY_NAMES = {
    "allocated": "allocated_mib",
    "max_allocated": "max_allocated_mib",
    "reserved": "reserved_mib",
    "max_reserved": "max_reserved_mib",
}
_EVALUATION = re.compile(
    rb"validation loss at (?:iteration (\d{1,12})|the end of training)"
    rb"([^|]{0,200})\|([^\n]{0,2000})"
)
_LOSS = re.compile(rb"([\w ./\-]{1,60}?) (value|PPL): *([^\s|]{1,40})")
_PARAMETERS = re.compile(
    rb"number of parameters on "
    rb"(?:\(tensor, (?P<between>gtp_weight_remat, )?pipeline[\w, ]{0,40}\) )?"
    rb"model parallel rank (?:\((?P<tensor>\d{1,6}), *(?(between)\d{1,6}, *)(?P<pipeline>\d{1,6})"
    rb"[^)]{0,20}\)|(?P<alone>\d{1,6}))\s*:?\s*(?P<count>[\d.]{1,30})(?P<unit> [BM]illion)?"
)
_EFFECTIVE = re.compile(
    rb"Effective Tera Flops per GPU: *([\d.]{1,20})(?: and total parameters ([\d.]{1,20}) B)?"
)
_OLD_TIMER = re.compile(rb"([A-Za-z][\w/ \-]{0,80}): *([\d.]{1,20})")
_TIMER = re.compile(rb"([a-z][\w/\-]{0,80}) ?\.{2,}: ?\(([\d.]{1,20}), ?([\d.]{1,20})\)")
_ARGUMENTS_END = b"end of arguments"
MOST_TIMER_REPORTS = 2000
TIMER_NEEDLES = (b"time (ms) | forward", b"time (ms) | model", b"time across ranks (ms)")


def _memory(tables: Tables, text: bytes, place: Line) -> None:
    for match in _MEMORY.finditer(text):
        body = match[4]
        if match.end() == len(text.rstrip()) and b"max reserved" not in body:
            body = text[match.start(4) :] + _next_part(place.following)
        rank = int(match[1]) if match[1] else None
        row: dict[str, object] = {"iteration": int(match[2]), "rank": rank, "what": "after"}
        for part in _PART.finditer(body):
            row |= _memory_value(part, match[3])
        tables.memory.add(**row, **place.where)


def _memory_value(part: re.Match[bytes], unit: bytes) -> dict[str, float]:
    if not NUMBER.fullmatch(part[2]):
        return {}
    value = float(part[2])
    name = column_of(part[1])[0].removeprefix("mem_")
    plain = name.removesuffix("_gigabytes")
    mebibytes = value * _MEBIBYTES.get(unit, 1.0)
    found = {_MEMORY_NAMES.get(plain, f"{plain}_mib"): mebibytes}
    return found | {f"mem_{plain}_gb": value} if unit == b"GB" else found


def _next_part(following: bytes) -> bytes:
    """Return the rest of a line that a launcher continued on the next line."""
    return following[prefix.label_length(following) :][:300]


def _evaluation(tables: Tables, text: bytes, place: Line) -> None:
    for match in _EVALUATION.finditer(text):
        split = "test" if re.search(rb"\btest\b", match[2]) else "validation"
        iteration = int(match[1]) if match[1] else place.iteration
        losses: dict[str, dict[str, float]] = {}
        for part in _LOSS.finditer(match[3]):
            if NUMBER.fullmatch(part[3]):
                key = "lm_loss" if part[2] == b"value" else "perplexity"
                name = part[1].decode("utf-8", "replace").strip()
                losses.setdefault(name, {})[key] = float(part[3])
        for name, values in losses.items():
            row = {"iteration": iteration, "split": split, "name": name}
            tables.evaluations.add(**row, **values, **place.where)


def _parameters(tables: Tables, text: bytes, place: Line) -> None:
    for match in _PARAMETERS.finditer(text):
        if not NUMBER.fullmatch(match["count"]):
            continue
        scale = {b" Billion": 1e9, b" Million": 1e6}.get(match["unit"], 1.0)
        tables.parameters.add(
            tensor_rank=int(match["tensor"] or match["alone"]),
            pipeline_rank=int(match["pipeline"]) if match["pipeline"] else None,
            parameters=round(float(match["count"]) * scale),
            **place.where,
        )


def _effective(tables: Tables, text: bytes, place: Line) -> None:
    if (match := _EFFECTIVE.search(text)) and NUMBER.fullmatch(match[1]):
        tables.iterations.complete(place.file, "tflops_per_device", float(match[1]))
        if match[2] and NUMBER.fullmatch(match[2]):
            tables.total_parameters = round(float(match[2]) * 1e9)


def _old_timers(tables: Tables, text: bytes, place: Line) -> None:
    if not _room_for_timers(tables, place):
        return
    for match in _OLD_TIMER.finditer(text, text.find(b"time (ms) |")):
        name = match[1].decode().strip()
        if NUMBER.fullmatch(match[2]):
            row = {"iteration": place.iteration, "name": name, "max_ms": float(match[2])}
            tables.timers.add(**row, **place.where)


def _room_for_timers(tables: Tables, place: Line) -> bool:
    tables.timer_reports += 1
    if tables.timer_reports == MOST_TIMER_REPORTS:
        tables.note(
            "limit", b"only the first %d timer reports are kept" % MOST_TIMER_REPORTS, place
        )
    return tables.timer_reports < MOST_TIMER_REPORTS


def region_begun(text: bytes) -> str | None:
    if b"- arguments ---" in text and _ARGUMENTS_END not in text:
        return "arguments"
    return "timers" if b"across ranks (ms)" in text else None


def region_ended(region: str, text: bytes) -> bool:
    return region == "arguments" and _ARGUMENTS_END in text


def region_line(region: str, tables: Tables, text: bytes, place: Line) -> bool:
    """Read a line of a table that spans lines; return False if it does not belong to it."""
    if region == "arguments":
        return tables.world.argument(text)
    match = _TIMER.search(text)
    if match is None or not (NUMBER.fullmatch(match[2]) and NUMBER.fullmatch(match[3])):
        return False
    if _room_for_timers(tables, place):
        times = {"min_ms": float(match[2]), "max_ms": float(match[3])}
        name = match[1].decode()
        tables.timers.add(iteration=place.iteration, name=name, **times, **place.where)
    return True


def _world(tables: Tables, text: bytes, _: Line) -> None:
    tables.world.line(text)


def _nothing(_: Tables, __: bytes, ___: Line) -> None:
    """Do nothing: the line begins a table, see `region_begun`."""


def _note(kind: str) -> Handler:
    return lambda tables, text, place: tables.note(kind, text, place)


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


def _deepspeed_overflow(tables: Tables, text: bytes, place: Line) -> None:
    for match in _DEEPSPEED_OVERFLOW.finditer(text):
        tables.overflows.add(
            iteration=place.iteration,
            rank=int(match[1]),
            loss_scale=_number(match[2]),
            new_loss_scale=_number(match[3]) if match[3] else _number(match[2]),
            hysteresis=int(match[4]) if match[4] else None,
            **{name: value for name, value in place.where.items()},
        )


def _apex_overflow(tables: Tables, text: bytes, place: Line) -> None:
    for match in _APEX_OVERFLOW.finditer(text):
        scale = _number(match[1])
        before = scale * 2 if scale is not None else None
        values = {"iteration": place.iteration, "loss_scale": before, "new_loss_scale": scale}
        tables.overflows.add(**values, **place.where)


def _epoch(tables: Tables, text: bytes, place: Line) -> None:
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


def _of_epoch(tables: Tables, text: bytes, place: Line) -> None:
    """Add a value to the last epoch that the same process finished."""
    for match in _ASSIGNED.finditer(text):
        name, value = _EPOCH_COLUMN[match[1]], _number(match[2])
        rows = tables.epochs.rows[-64:]
        mine = [row for row in rows if row["who"].printer == place.found.printer]
        if not mine or name in mine[-1]:
            tables.epochs.add(**place.where)
            mine = tables.epochs.rows[-1:]
        mine[-1][name] = value


def _usage(tables: Tables, text: bytes, place: Line) -> None:
    for match in _USAGE.finditer(text):
        size_bytes = (_number(match[2]) or 0.0) * _TO_MEBIBYTES[match[3]]
        what = match[1].decode("utf-8", "replace").strip()
        column = "max_allocated_mib" if b"high watermark" in match[1] else "allocated_mib"
        unit = match[3].decode().lower()
        values = {column: size_bytes / 2**20, f"printed_{unit}": _number(match[2])}
        tables.memory.add(iteration=place.iteration, what=what, **values, **place.where)


def _dictionary(tables: Tables, text: bytes, place: Line) -> None:
    """Read the dictionaries that the Hugging Face trainer prints."""
    for match in _DICTIONARY.finditer(text):
        values = {pair[1].decode(): _number(pair[2]) for pair in _PAIR.finditer(match[1])}
        if "loss" in values:
            _other(tables, place, {column_of(name.encode())[0]: v for name, v in values.items()})
        elif "eval_loss" in values:
            row = {"split": "validation", "name": "eval_loss", "lm_loss": values["eval_loss"]}
            tables.evaluations.add(iteration=place.iteration, **row, **place.where)
        elif "train_runtime" in values:
            tables.note("summary", match[0], place)


def _speed(tables: Tables, text: bytes, place: Line) -> None:
    for match in _SPEED.finditer(text):
        values = {
            "iteration": _number(match[1]),
            "lm_loss": _number(match[2]),
            "samples_per_second": _number(match[3]),
            "learning_rate": _number(match[4]),
        }
        _other(tables, place, values)


def _step(tables: Tables, text: bytes, place: Line) -> None:
    """Read `step:0, loss:5.45` and `iter 100: loss 2.4, time 12.3ms`."""
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


def _bar(tables: Tables, text: bytes, place: Line) -> None:
    """Read Lightning's progress bar with the values of NeMo 1."""
    for match in _BAR.finditer(text):
        values: dict[str, float | None] = {}
        for pair in _BAR_PAIR.finditer(match[2]):
            name, factor = column_of(pair[1])
            if (value := _number(pair[2])) is not None:
                values[name] = value * factor
        step = values.get("global_step")
        _other(tables, place, {"iteration": float(match[1]) if step is None else step, **values})


def _other(tables: Tables, place: Line, values: dict[str, float | None]) -> None:
    """Add an iteration of a trainer without Megatron lines."""
    if "iteration" not in values:
        values = values | {"iteration": float(len(tables.others.rows) + 1)}
    tables.others.add(**values, **place.where)


def _untimed(tables: Tables, text: bytes, place: Line) -> None:
    """Read an iteration line without its time, as authors of web pages shorten them."""
    if b"elapsed time per iteration" not in text:
        for row in rows_of(text):
            _other(tables, place, dict(zip(row.columns, row.values, strict=True)))


def _total(tables: Tables, text: bytes, place: Line) -> None:
    if match := _TOTAL.search(text):
        tables.total_parameters = int(match[1])


# Words in a line -> its handler.
HANDLERS: dict[bytes, Handler] = {
    b"using world size": _world,
    b"dist_world_size=": _world,
    b" for parameters ...": _world,
    b"setting number of micro": _world,
    b" iterations) memory (": _memory,
    b" iterations memory (": _memory,
    b"validation loss at": _evaluation,
    b"number of parameters on": _parameters,
    b"Effective Tera Flops per GPU": _effective,
    b"time (ms) | forward": _old_timers,
    b"time (ms) | model": _old_timers,
    b"time across ranks (ms)": _nothing,
    b"- arguments ---": _nothing,
    b"successfully saved checkpoint": _note("checkpoint"),
    b"successfully loaded checkpoint": _note("resume"),
    b"exiting program a": _note("exit"),
    b"[before the start of training": _note("start"),
    b"[after training is done]": _note("end"),
    b"Theoretical memory footprints": _note("predicted memory"),
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
# Words that are short enough to be in other lines: searched only in the first part of a log, and
# until an iteration is found.
SHORT_HANDLERS: dict[bytes, Handler] = {
    b"consumed samples:": _untimed,
    b"Avg val loss=": _of_epoch,
    b"'loss': ": _dictionary,
    b"'eval_loss': ": _dictionary,
    b"step:": _step,
    b"step ": _step,
    b"iter ": _step,
}
