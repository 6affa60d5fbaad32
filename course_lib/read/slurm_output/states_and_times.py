"""States and times as Slurm's commands print them, short or long, plain or marked: the one table
of them, also for the code that asks Slurm about its jobs."""

from __future__ import annotations

import re

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
    """The long name: of a code (`PD`), of a name that was cut (`CONFIGUR`, `CANCELLED+`), without
    what follows it (`CANCELLED by 1000`). A name that nobody has heard of is kept."""
    found = re.match(r"[A-Za-z_]+", text.strip())
    word = found[0] if found else ""
    if word in JOB_STATES:
        return JOB_STATES[word]
    word = word.upper()
    whole = [name for name in JOB_STATES.values() if len(word) >= 3 and name.startswith(word)]
    return word if word in whole or not whole else whole[0]


def node_state(text: str) -> tuple[str, tuple[str, ...]]:
    """(state, what its marks say): `idle~` is idle and powered off; `MIXED+CLOUD` has a flag."""
    word, *flags = text.strip().split("+")
    marks = []
    while word and word[-1] in NODE_MARKS:
        marks.append(NODE_MARKS[word[-1]])
        word = word[:-1]
    return NODE_STATES.get(word.lower(), word.upper()), (*reversed(marks), *flags)


def seconds(text: str) -> int | None:
    """`1-02:03:04`, `02:03:04`, `03:04`; None for UNLIMITED, N/A and the like."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    days, first, second, third = (int(part or 0) for part in match.groups())
    if match[4] or match[1]:
        return (days * 24 + first) * 3600 + second * 60 + third
    return first * 60 + second
