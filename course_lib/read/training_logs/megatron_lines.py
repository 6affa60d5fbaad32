"""Lines of Megatron-LM and Megatron-DeepSpeed other than iteration lines."""

from __future__ import annotations

import re

from course_lib.read import prefix
from course_lib.read.training_logs.iteration_lines.names_and_values import NUMBER, column_of
from course_lib.read.training_logs.tables import Handler, LinePlace, Tables

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
TIMER_NEEDLES: tuple[bytes, ...] = (
    b"time (ms) | forward",
    b"time (ms) | model",
    b"time across ranks (ms)",
)


def _memory(tables: Tables, text: bytes, place: LinePlace) -> None:
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
    """What a launcher that cut the line put on the next one."""
    rest = following.split(b"\n", 1)[0]
    return rest[prefix.label_length(rest) :][:300]


def _evaluation(tables: Tables, text: bytes, place: LinePlace) -> None:
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


def _parameters(tables: Tables, text: bytes, place: LinePlace) -> None:
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


def _effective(tables: Tables, text: bytes, place: LinePlace) -> None:
    if (match := _EFFECTIVE.search(text)) and NUMBER.fullmatch(match[1]):
        tables.iterations.patch(place.file, place.line, "tflops_per_device", float(match[1]))
        if match[2] and NUMBER.fullmatch(match[2]):
            tables.total_parameters = round(float(match[2]) * 1e9)


def _old_timers(tables: Tables, text: bytes, place: LinePlace) -> None:
    if not _room_for_timers(tables, place):
        return
    for match in _OLD_TIMER.finditer(text, text.find(b"time (ms) |")):
        name = match[1].decode().strip()
        if NUMBER.fullmatch(match[2]):
            row = {"iteration": place.iteration, "name": name, "max_ms": float(match[2])}
            tables.timers.add(**row, **place.where)


def _room_for_timers(tables: Tables, place: LinePlace) -> bool:
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


def region_line(region: str, tables: Tables, text: bytes, place: LinePlace) -> bool:
    """Takes a line of a table that spans lines; False where it does not belong to it."""
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


def _world(tables: Tables, text: bytes, _: LinePlace) -> None:
    tables.world.line(text)


def _nothing(_: Tables, __: bytes, ___: LinePlace) -> None:
    """The line begins a table: see `region_begun`."""


def _note(kind: str) -> Handler:
    return lambda tables, text, place: tables.note(kind, text, place)


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
}
"""What to do with a line that holds these words."""
