"""Rules: the meaning of one line about a failure, with details from the lines around it.

`causes.toml` has the rules. A line that matches no rule may still be an exception."""

from __future__ import annotations

import re
from dataclasses import dataclass

from course_lib.read import prefix
from course_lib.read.first_causes.causes import TEXTS
from course_lib.read.first_causes.tracebacks import WARNS

# A tier counts only if no earlier one was found; `causes.toml` explains them. An error printed with
# a warning is `WARNED`: it did no harm unless it ended the run. A `WARNING` did none.
ROOT, DIED, SECONDARY, WARNED, REPORT, CLEANUP, WARNING = range(7)
_NAMES = {"root": ROOT, "died": DIED, "secondary": SECONDARY, "report": REPORT, "cleanup": CLEANUP}


@dataclass(frozen=True)
class Rule:
    """Rule for lines about a cause: an inner table of `causes.toml`."""

    cause: str
    tier: int
    patterns: tuple[re.Pattern[bytes], ...]
    unless: re.Pattern[bytes] | None
    example: str
    counter_example: str

    def matches(self, body: bytes) -> re.Match[bytes] | None:
        found = next((found for one in self.patterns if (found := one.search(body))), None)
        return None if found and self.unless and self.unless.search(body) else found


RULES = tuple(
    Rule(
        cause=cause,
        tier=_NAMES[name],
        patterns=tuple(re.compile(pattern.encode()) for pattern in entry["patterns"]),
        unless=re.compile(entry["unless"].encode()) if "unless" in entry else None,
        example=entry["example"],
        counter_example=entry["counter_example"],
    )
    for cause, texts in TEXTS.items()
    for name, entry in texts.items()
    if name in _NAMES
)
_EXCEPTION = (
    rb"(?:^|[\s:\]>])(?P<type>(?:[A-Za-z_][\w]{0,60}\.){0,8}"
    rb"(?:[A-Za-z_]\w{0,80}(?:Error|Exception|Interrupt|Exit|Failure|Timeout)|StopIteration))"
    rb"(?:: ?(?P<message>.{0,2000}))?$"
)
EXCEPTION = re.compile(_EXCEPTION)
# Last line of a traceback, whatever the exception's name.
ANY_EXCEPTION = re.compile(
    rb"(?P<type>(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Za-z_]\w{0,80})(?:: ?(?P<message>.{0,2000}))?$"
)


# Exceptions that usually follow from an event in another process.
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
# Beginning of Slurm's message about a job or a step that it ended.
_STEP = re.compile(
    rb"\*\*\* (?:JOB|STEP) (?P<step>[\w.+]{1,60}) ON (?P<node>\S{1,100})(?: CANCELLED)?"
    rb"(?: AT (?P<at>\S{0,30}))?"
)
_STAMPS = (
    re.compile(rb"\d{4}-(\d\d)-(\d\d)[ T_](\d\d):(\d\d):(\d\d(?:[.,]\d{1,9})?)"),
    re.compile(rb"\b[IWEF](\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d(?:\.\d{1,9})?)"),
)
# Most memory of a device that driver and libraries take outside of the allocator.
_CONTEXT_BYTES = 1 << 30
_SIZE = re.compile(rb"\d[\d.]{0,20} [KMGT]?i?B")


# A warning of NCCL is an error; a warning of torch or Python is a warning.
_LOGGED_AS_WARNING = re.compile(rb"\[W[\d ]|\bWARNING\b|^W\d{4} ")


@dataclass(frozen=True)
class Finding:
    """Cause found in a line; `text` is the line, joined with the next one if it was cut."""

    cause: str
    tier: int
    details: dict[str, str]
    text: bytes


def classify(body: bytes, ahead: bytes, ends_traceback: bool = False) -> Finding | None:
    """Classify `body`, a line without its prefix; `ahead` is the next line, in case it was cut."""
    for rule in RULES:
        match = rule.matches(body)
        if match is None:
            continue
        if ahead and _is_cut(rule, body):
            joined = classify(body + (b"" if body.endswith(b" ") else b" ") + ahead, b"")
            if joined and joined.tier <= rule.tier:
                return joined
        tier = rule.tier
        if tier == ROOT and WARNS.search(body):
            tier = WARNING
        elif tier == SECONDARY and _LOGGED_AS_WARNING.search(body):
            tier = WARNED
        step = _STEP.search(body)
        named = {**(step.groupdict() if step else {}), **match.groupdict()}
        details = {
            name: value.decode("utf-8", "replace") for name, value in named.items() if value
        } | memory_details(rule.cause, body)
        cause = "device_shared" if _held_by_others(rule.cause, details) else rule.cause
        return Finding(cause, tier, details, body)
    return _exception(body, ANY_EXCEPTION if ends_traceback else EXCEPTION)


def _held_by_others(cause: str, details: dict[str, str]) -> bool:
    """Tell whether other processes hold more than this one, if the message has the sizes."""
    sizes = {name: int(text) for name, text in details.items() if name.endswith("_bytes")}
    if cause != "cuda_oom" or not {"total_bytes", "free_bytes"} <= sizes.keys():
        return False
    allocated, reserved = sizes.get("allocated_bytes", 0), sizes.get("reserved_bytes", 0)
    # The first versions printed cached memory without the allocated, later ones with it.
    taken = reserved if reserved > allocated else reserved + allocated
    own = sizes.get("in_use_bytes", taken + _CONTEXT_BYTES)
    others = max(0, sizes["total_bytes"] - sizes["free_bytes"] - own)
    details["others_bytes"] = str(others)
    return others > own and bool(taken or "in_use_bytes" in sizes)


def _is_cut(rule: Rule, body: bytes) -> bool:
    """Tell whether a line is cut. Launchers cut long lines, and mail and web pages wrap them."""
    if rule.cause == "cuda_oom":
        return b"Tried to" in body and not (
            _SIZE.search(body) and b"free" in body and b"reserved" in body
        )
    return b"*** " in body and body.count(b"***") < 2


def _exception(body: bytes, pattern: re.Pattern[bytes]) -> Finding | None:
    """Return an exception without a rule of its own, if it is at the start of a line."""
    match = pattern.match(body)
    if match is None:
        return None
    name = match["type"].decode().rsplit(".", 1)[-1]
    if name.endswith("Warning"):
        return None
    details = {"type": name, "message": (match["message"] or b"").decode("utf-8", "replace")}
    tier = _CONSEQUENCES.get(name, ROOT)
    return Finding("python_error", tier, details, body)


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
    """Return the sizes in an allocator's message, in bytes."""
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
    """Return the next line without the launcher's prefix."""
    stop = text.find(b"\n", end + 1)
    line = prefix.without_colours(text[end + 1 : stop if stop >= 0 else len(text)][:4000])
    return line[prefix.label_length(line) :].rstrip()


def moment(text: bytes, span: tuple[int, int]) -> tuple[float, ...] | None:
    """Return month, day, hour, minute and second of a line, or of the nearest line with a time."""
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
