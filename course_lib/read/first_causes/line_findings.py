"""What one line says about a failure, and what the lines around it add."""

from __future__ import annotations

import re
from dataclasses import dataclass

from course_lib.read import prefix
from course_lib.read.first_causes.rules.all_rules import ANY_EXCEPTION, EXCEPTION, RULES
from course_lib.read.first_causes.rules.rule import REPORT, ROOT, SECONDARY, WARNING, Rule
from course_lib.read.first_causes.tracebacks import WARNS

_CONSEQUENCES = {
    "ChildFailedError": REPORT,
    "CalledProcessError": REPORT,
    "ProcessRaisedException": REPORT,
    "SignalException": REPORT,
    "KeyboardInterrupt": REPORT,
    "SystemExit": REPORT,
    "BrokenPipeError": SECONDARY,
    "ConnectionResetError": SECONDARY,
    "ConnectionRefusedError": SECONDARY,
    "ConnectionError": SECONDARY,
    "EOFError": SECONDARY,
    "DistBackendError": SECONDARY,
    "DistStoreError": SECONDARY,
    "TimeoutError": SECONDARY,
}
"""Exceptions that mostly follow from what happened in another process."""
_FRAME = re.compile(
    rb'File "([^"\n]{1,400})", line (\d{1,9}), in\s{0,4}(\S{1,200})\n([^\n]{0,400})'
)
_STAMPS = (
    re.compile(rb"\d{4}-(\d\d)-(\d\d)[ T_](\d\d):(\d\d):(\d\d(?:[.,]\d{1,9})?)"),
    re.compile(rb"\b[IWEF](\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d(?:\.\d{1,9})?)"),
)
_CONTEXT_BYTES = 1 << 30
"""What driver and libraries take of a device beside the allocator, at most."""
_SIZE = re.compile(rb"\d[\d.]{0,20} [KMGT]?i?B")


_LOGGED_AS_WARNING = re.compile(rb"\[W[\d ]|\bWARNING\b|^W\d{4} ")
"""By torch or Python: what NCCL calls a warning is an error."""


@dataclass(frozen=True)
class Finding:
    """`last_tier`: the tier if nothing but the end of the run came afterwards."""

    cause: str
    tier: int
    last_tier: int
    details: dict[str, str]
    text: bytes


def classify(body: bytes, ahead: bytes, ends_traceback: bool = False) -> Finding | None:
    """`body` is a line without its prefix, `ahead` the next one, which a cut line may need."""
    for rule in RULES:
        match = rule.pattern.search(body)
        if match is None or (rule.unless and rule.unless.search(body)):
            continue
        if ahead and _is_cut(rule, body):
            joined = classify(body + (b"" if body.endswith(b" ") else b" ") + ahead, b"")
            if joined and joined.tier <= rule.tier:
                return joined
        named = {name: value for name, value in match.groupdict().items() if value is not None}
        details = {name: value.decode("utf-8", "replace") for name, value in named.items()}
        details |= memory_details(rule.cause, body)
        cause = "device_shared" if _held_by_others(rule.cause, details) else rule.cause
        return Finding(cause, *_tiers(rule, body), details, body)
    return _exception(body, ANY_EXCEPTION if ends_traceback else EXCEPTION)


def _tiers(rule: Rule, body: bytes) -> tuple[int, int]:
    """What a logger marks as a warning did not end the run, whatever words it is in; but who warns
    that another is not to be reached may have waited for it to the end."""
    if rule.tier == ROOT and WARNS.search(body):
        return WARNING, WARNING
    if rule.tier == SECONDARY and _LOGGED_AS_WARNING.search(body):
        return WARNING, SECONDARY
    return rule.tier, rule.tier


def _held_by_others(cause: str, details: dict[str, str]) -> bool:
    """More than this process has itself, where the message tells."""
    sizes = {name: int(text) for name, text in details.items() if name.endswith("_bytes")}
    if cause != "cuda_oom" or not {"total_bytes", "free_bytes"} <= sizes.keys():
        return False
    allocated, reserved = sizes.get("allocated_bytes", 0), sizes.get("reserved_bytes", 0)
    # The first versions told what was cached beside the allocated, later ones both together.
    taken = reserved if reserved > allocated else reserved + allocated
    own = sizes.get("in_use_bytes", taken + _CONTEXT_BYTES)
    others = max(0, sizes["total_bytes"] - sizes["free_bytes"] - own)
    details["others_bytes"] = str(others)
    return others > own and bool(taken or "in_use_bytes" in sizes)


def _is_cut(rule: Rule, body: bytes) -> bool:
    """Launchers cut long lines, and mail and web pages wrap them."""
    if rule.cause == "cuda_oom":
        return b"Tried to" in body and not (
            _SIZE.search(body) and b"free" in body and b"reserved" in body
        )
    return b"*** " in body and body.count(b"***") < 2


def _exception(body: bytes, pattern: re.Pattern[bytes]) -> Finding | None:
    """An exception that has no rule of its own; only where it stands at the start of a line."""
    match = pattern.match(body)
    if match is None:
        return None
    name = match["type"].decode().rsplit(".", 1)[-1]
    if name.endswith("Warning"):
        return None
    details = {"type": name, "message": (match["message"] or b"").decode("utf-8", "replace")}
    tier = _CONSEQUENCES.get(name, ROOT)
    return Finding("python_error", tier, tier, details, body)


_UNITS = {"B": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_UNITS |= {"KB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4}
_MEMORY = {
    "tried_bytes": re.compile(rb"[Tt]ried to allocate (\d[\d.]{0,20}) ?([KMGT]?i?B|bytes)"),
    "total_bytes": re.compile(
        rb"(?:capacity of |; )(\d[\d.]{0,20}) ([KMGT]?i?B)(?: total capacity| of which|\.)"
    ),
    "free_bytes": re.compile(rb"(?:of which |; )(\d[\d.]{0,20}) ([KMGT]?i?B) (?:is )?free"),
    "allocated_bytes": re.compile(
        rb"(?:Of the allocated memory |; )(\d[\d.]{0,20}) ([KMGT]?i?B) (?:is allocated by|"
        rb"already allocated)"
    ),
    "reserved_bytes": re.compile(rb"(\d[\d.]{0,20}) ([KMGT]?i?B) (?:is )?(?:reserved|cached)"),
    "in_use_bytes": re.compile(
        rb"(?:this process has |\. )(\d[\d.]{0,20}) ([KMGT]?i?B) (?:memory |is )in use"
    ),
}
_DEVICE = re.compile(rb"\(?GPU (\d{1,5})[; ]")


def memory_details(cause: str, body: bytes) -> dict[str, str]:
    """Sizes in an allocator's message, in bytes."""
    if cause not in ("cuda_oom", "cpu_oom", "device_limit"):
        return {}
    found: dict[str, str] = {}
    for name, pattern in _MEMORY.items():
        if match := pattern.search(body):
            unit = _UNITS.get(match[2].decode().upper().replace("BYTES", "B"), 1)
            found[name] = str(round(_number(match[1]) * unit))
    if match := _DEVICE.search(body):
        found["device"] = match[1].decode()
    return found


def _number(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def following(text: bytes, end: int) -> bytes:
    """The next line without what the launcher put before it."""
    stop = text.find(b"\n", end + 1)
    line = prefix.without_colours(text[end + 1 : stop if stop >= 0 else len(text)][:4000])
    return line[prefix.label_length(line) :].rstrip()


def frame_before(text: bytes, start: int) -> dict[str, str]:
    """The innermost frame of the traceback that ends at `start`, and its source line."""
    back = text[max(0, start - 1500) : start]
    frames = list(_FRAME.finditer(back))
    if not frames or b'File "' in back[frames[-1].end() :]:
        return {}
    path, line, function, code = frames[-1].groups()
    code = prefix.without_colours(code)
    code = code[prefix.parse(code).length :].strip()
    where = b"%s:%s in %s" % (path, line, function)
    found = {"where": where.decode("utf-8", "replace")}
    return found | ({"code": code.decode("utf-8", "replace")} if code else {})


def moment(text: bytes, span: tuple[int, int]) -> tuple[float, ...] | None:
    """Month, day, hour, minute, second of a line, or of the nearest line that has a time."""
    for part in (text[span[0] : span[1]], text[span[1] : span[1] + 2000]):
        if found := _stamp(part, first=True):
            return found
    return _stamp(text[max(0, span[0] - 4000) : span[0]], first=False)


def _stamp(text: bytes, first: bool) -> tuple[float, ...] | None:
    found: list[tuple[int, tuple[float, ...]]] = []
    for pattern in _STAMPS:
        matches = list(pattern.finditer(text))
        if matches:
            match = matches[0 if first else -1]
            parts = tuple(float(part.replace(b",", b".")) for part in match.groups())
            found.append((match.start(), parts))
    return (min(found) if first else max(found))[1] if found else None
