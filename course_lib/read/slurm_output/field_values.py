"""Field values of Slurm's commands: host lists such as `node[1-3,7],gpu-[08-10]`, states and
times.

States are short or long, plain or marked. The code that asks Slurm about its jobs uses the same
tables."""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_HOSTS, MOST_BRACKETS = 1_000_000, 20
# A few bytes can stand for more names than fit in memory.
MOST_LETTERS = 20_000_000
# `None assigned`, also cut at the column's width.
_NO_NODE = re.compile(r"None(?: a\w*\+?)?|\(null\)")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


def expand_hosts(text: str, most_letters: int = MOST_LETTERS) -> list[str]:
    """Return the names in order. Text without a list is returned unchanged; a list that the
    printing command cut off (`…` or `...`) gives its complete names. A list that is too long ends
    early."""
    if _NO_NODE.fullmatch(text.strip()):
        return []
    names: list[str] = []
    for part in _split(text.strip()):
        for name in _expand(part) if part.count("[") <= MOST_BRACKETS else (part,):
            most_letters -= len(name)
            if len(names) >= MOST_HOSTS or most_letters < 0:
                return names
            names.append(name)
    return names


def _split(text: str) -> Iterator[str]:
    """Split at commas outside of brackets."""
    depth, start = 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]" and depth > 0)
        if letter == "," and not depth:
            yield text[start:place]
            start = place + 1
    yield text[start:]


def _expand(text: str) -> Iterator[str]:
    if not text or (text.endswith(("...", "…")) and "[" not in text):
        return
    head, bracket, rest = text.partition("[")
    if not bracket:
        yield text
        return
    inside, closing, tail = rest.partition("]")
    cut = not closing
    for number in _numbers(inside, cut):
        if cut:
            yield head + number
            continue
        for end in _expand(tail) if tail else ("",):
            yield head + number + end


def _numbers(text: str, cut: bool) -> Iterator[str]:
    parts = text.split(",")
    for part in parts[:-1] if cut else parts:
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            if part:
                yield part
            continue
        first, last = int(match[1]), int(match[2] or match[1])
        for number in range(first, min(last, first + MOST_HOSTS) + 1):
            yield str(number).zfill(len(match[1]))


JOB_STATES = {
    "BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "CF": "CONFIGURING",
    "CG": "COMPLETING", "DL": "DEADLINE", "F": "FAILED", "NF": "NODE_FAIL",
    "OOM": "OUT_OF_MEMORY", "PD": "PENDING", "PR": "PREEMPTED", "R": "RUNNING",
    "RD": "RESV_DEL_HOLD", "RF": "REQUEUE_FED", "RH": "REQUEUE_HOLD", "RQ": "REQUEUED",
    "RS": "RESIZING", "RV": "REVOKED", "SE": "SPECIAL_EXIT", "SI": "SIGNALING",
    "SO": "STAGE_OUT", "ST": "STOPPED", "S": "SUSPENDED", "TO": "TIMEOUT",
}  # fmt: skip
NODE_STATES = {
    "alloc": "ALLOCATED", "allocated": "ALLOCATED", "comp": "COMPLETING",
    "completing": "COMPLETING", "down": "DOWN", "drain": "DRAINED", "drained": "DRAINED",
    "drng": "DRAINING", "draining": "DRAINING", "fail": "FAIL", "failg": "FAILING",
    "idle": "IDLE", "inval": "INVAL", "maint": "MAINT", "mix": "MIXED", "mixed": "MIXED",
    "plnd": "PLANNED", "planned": "PLANNED", "pow_dn": "POWERING_DOWN", "pow_up": "POWERING_UP",
    "npc": "PERFCTRS", "resv": "RESERVED", "reserved": "RESERVED", "unk": "UNKNOWN",
    "reboot": "REBOOT",
}  # fmt: skip
NODE_MARKS = {
    "*": "not responding", "~": "powered off", "#": "powering up", "%": "powering down",
    "!": "pending power down", "$": "in maintenance", "@": "pending reboot",
    "^": "rebooting", "-": "planned for a job",
}  # fmt: skip
_TIME = re.compile(r"(?:(\d{1,6})-)?(\d{1,6}):(\d{1,2})(?::(\d{1,2}))?(?:\.\d+)?")


def job_state(text: str) -> str:
    """Return a state's long name from a code (`PD`) or a cut name (`CONFIGUR`, `CANCELLED+`),
    without further words (`CANCELLED by 1000`). Unknown names are kept."""
    found = re.match(r"[A-Za-z_]+", text.strip())
    word = found[0] if found else ""
    if word in JOB_STATES:
        return JOB_STATES[word]
    word = word.upper()
    whole = [name for name in JOB_STATES.values() if len(word) >= 3 and name.startswith(word)]
    return word if word in whole or not whole else whole[0]


def node_state(text: str) -> tuple[str, tuple[str, ...]]:
    """Return (state, meanings of its marks): `idle~` is powered off; `MIXED+CLOUD` has a flag."""
    word, *flags = text.strip().split("+")
    marks = []
    while word and word[-1] in NODE_MARKS:
        marks.append(NODE_MARKS[word[-1]])
        word = word[:-1]
    return NODE_STATES.get(word.lower(), word.upper()), (*reversed(marks), *flags)


def seconds(text: str) -> int | None:
    """Return the seconds of `1-02:03:04`, `02:03:04` or `03:04`; None for UNLIMITED, N/A etc."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    days, first, second, third = (int(part or 0) for part in match.groups())
    if match[4] or match[1]:
        return (days * 24 + first) * 3600 + second * 60 + third
    return first * 60 + second
