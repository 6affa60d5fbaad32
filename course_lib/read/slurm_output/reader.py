"""`read.slurm`: what squeue, sinfo, sacct and scontrol print, in whatever format was asked for.

Meant for text that somebody saved. Code that starts the commands should ask for a delimited format
and read that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from course_lib.read import lines
from course_lib.read.slurm_output.result import Record, SlurmTable, SlurmText
from course_lib.read.slurm_output.sacct_fields import SACCT_FIELDS
from course_lib.read.slurm_output.table_cells import (
    aligned,
    delimiter_of,
    is_ruler,
    table_of_delimited,
    under_ruler,
)

LARGEST_TEXT_BYTES = 64 << 20
MOST_ROWS = 1_000_000

_SUBMITTED = re.compile(r"Submitted batch job (\d{1,18})")
_RECORD_KEYS = ("NodeName", "JobId", "PartitionName", "ReservationName", "Slurmctld", "StepId")
_PAIR = re.compile(r"(?:^|(?<=\s))([A-Za-z][\w:/]{0,60})=")
_STATISTIC = re.compile(r"\s*([A-Za-z][\w ()/,.-]{2,80}?):\s+(\S.{0,200})")
_NAMES = re.compile(r"[A-Za-z]\w*(?:\([\w/]+\))?")
_OPTION = re.compile(r"=| -[A-Za-z-]")
_ALONE = re.compile(r"\s*[A-Za-z]\w*(?:\([\w/]+\))?[^\w\s]*\s*")
_LONGEST_HEADER = 20_000
_HEADERS = SACCT_FIELDS | {
    "JOBID", "PARTITION", "NAME", "USER", "ST", "STATE", "TIME", "NODES", "NODELIST", "AVAIL",
    "NODELIST(REASON)", "TIMELIMIT", "TIME_LIMIT", "TIME_LIMI", "REASON", "TIMESTAMP", "ACCOUNT",
    "HOSTNAMES", "CPUS", "MEMORY", "GRES", "PRIORITY", "QOS", "START_TIME",
}  # fmt: skip


def slurm(source: str | Path) -> SlurmText:
    """`source`: a file, or the text itself."""
    text = _text(source)
    for reader in (_json, _pairs):
        if (found := reader(text)) is not None:
            return found
    tables: list[SlurmTable] = []
    other: list[str] = []
    for block in _blocks(text):
        table = _block(block)
        if table is not None and table.rows:
            tables.append(table)
        else:
            other += block
    submitted = tuple(int(number) for number in _SUBMITTED.findall(text))
    return SlurmText(tuple(tables), submitted, tuple(other))


def _text(source: str | Path) -> str:
    if isinstance(source, str) and ("\n" in source or len(source) > 1000):
        return source
    path = Path(source)
    try:
        if not path.is_file():
            return str(source)
        blocks, left = [], LARGEST_TEXT_BYTES
        for block in lines.blocks(path):
            blocks.append(block[:left])
            if (left := left - len(block)) <= 0:
                break
        text = b"".join(blocks).decode("utf-8", "replace")
        return "\n".join(text.split("\n", MOST_ROWS)[:MOST_ROWS])
    except (OSError, EOFError, ValueError):
        return str(source)


def _json(text: str) -> SlurmText | None:
    """`--json`, or one object a line made with `--format`."""
    start = text.lstrip()[:1]
    if start not in ("{", "["):
        return None
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = [item for item in map(_object, text.splitlines()) if item is not None]
    lists = {"json": whole} if isinstance(whole, list) else whole
    if not isinstance(lists, dict):
        return None
    tables = [
        SlurmTable(name, [_flat(item) for item in items if isinstance(item, dict)])
        for name, items in lists.items()
        if isinstance(items, list) and any(isinstance(item, dict) for item in items)
    ]
    return SlurmText(tuple(tables)) if tables else None


def _object(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _flat(item: dict[str, Any]) -> Record:
    return {str(name): _cell(str(name), value) for name, value in item.items()}


def _cell(name: str, value: Any) -> str:
    """What newer versions wrap: a number that may be unset, a state with its reason, several
    states in a list."""
    if isinstance(value, dict) and {"set", "infinite", "number"} <= value.keys():
        return "UNLIMITED" if value["infinite"] else str(value["number"]) if value["set"] else ""
    if name.endswith("state") and isinstance(value, dict) and "current" in value:
        value = value["current"]
    if name.endswith("state") and isinstance(value, list):
        return "+".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)


def _pairs(text: str) -> SlurmText | None:
    """`scontrol show`: records of Name=value, over several lines or in one."""
    records: list[Record] = []
    kind = ""
    for line in text.splitlines():
        matches = list(_PAIR.finditer(line))
        if not matches or (not records and matches[0][1] not in _RECORD_KEYS):
            continue
        if matches[0][1] in _RECORD_KEYS and len(records) < MOST_ROWS:
            kind = (
                kind or f"scontrol {matches[0][1].removesuffix('Name').removesuffix('Id').lower()}"
            )
            records.append({})
        for number, match in enumerate(matches):
            stop = matches[number + 1].start() if number + 1 < len(matches) else len(line)
            records[-1].setdefault(match[1], line[match.end() : stop].strip())
    if not records:
        return None
    rest = "\n".join(line for line in text.splitlines() if not _PAIR.search(line))
    more = slurm(rest).tables if rest.strip() and "=" not in rest else ()
    return SlurmText((*more, SlurmTable(kind, records)))


def _blocks(text: str) -> Iterator[list[str]]:
    """A new table begins with its header; prompts, blank lines and dates stand between tables."""
    block: list[str] = []
    delimited = False
    lines = _lines(text)
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        begins = _is_header(line) or (is_ruler(following) and not is_ruler(line))
        ends = not delimited and (not line.strip() or _is_between(line))
        if (begins or ends) and block:
            yield block
            block, delimited = [], False
        if not ends:
            delimited = delimited if block else begins and bool(delimiter_of(line, _HEADERS))
            block.append(line)
    if block:
        yield block


def _is_between(line: str) -> bool:
    if _SUBMITTED.search(line) or re.match(r"\w{3} \w{3} +\d+ [\d:]{8} \d{4}\s*$", line):
        return True
    return (
        re.match(r"\s*(?:\[[^\]]{0,80}\]\s*[$#]|[$>] |\w{1,40}: s(?:info|queue|acct)\b)", line)
        is not None
    )


def _lines(text: str) -> list[str]:
    """At newlines and record separators only: other marks may stand inside of cells."""
    return re.split(r"\r?\n|\x1e\n?", text.removesuffix("\n"))


def _is_header(line: str) -> bool:
    """Two known names, or the only one; not a row (some values are names too), nor a command line
    that asks for them."""
    if line.lstrip()[:1].isdigit():
        return False
    words = set(_NAMES.findall(line[:_LONGEST_HEADER]))
    known = len(words & _HEADERS)
    alone = known == len(words) == 1 and _ALONE.fullmatch(line)
    return bool((known >= 2 or alone) and not _OPTION.search(line))


def _block(block: list[str]) -> SlurmTable | None:
    header, *rest = block
    if rest and is_ruler(rest[0]):
        return SlurmTable(_kind(header), under_ruler(header, rest[0], rest[1:]))
    if _is_header(header):
        if delimiter := delimiter_of(header, _HEADERS):
            return SlurmTable(_kind(header), table_of_delimited(block, delimiter))
        return SlurmTable(_kind(header), [aligned(header, line) for line in rest])
    return _headless(block)


def _kind(header: str) -> str:
    words = set(_NAMES.findall(header))
    if {"REASON", "TIMESTAMP"} <= words:
        return "sinfo -R"
    if words & {"AVAIL", "HOSTNAMES"} or ("TIMELIMIT" in words and "JOBID" not in words):
        return "sinfo"
    return "squeue" if "JOBID" in words or not words & SACCT_FIELDS else "sacct"


def _headless(block: list[str]) -> SlurmTable | None:
    """Columns without names are numbered; a list of `name: value` is one record."""
    for mark in ("\x1f", "|", "^^^", ";", "\t", ","):
        counts = {line.count(mark) for line in block}
        if min(counts) and not (mark == "," and (len(counts) > 1 or any("  " in x for x in block))):
            rows = [line.split(mark) for line in block[:MOST_ROWS]]
            if len(counts) == 1 and not any(row[-1] for row in rows):  # of `sacct -n -p`
                rows = [row[:-1] for row in rows]
            return SlurmTable("delimited", [_numbered(row) for row in rows])
    statistics = [match for line in block if (match := _STATISTIC.fullmatch(line.rstrip()))]
    if statistics and 2 * len(statistics) >= len(block):
        return SlurmTable("statistics", [{match[1].strip(): match[2] for match in statistics}])
    rows = [line.split() for line in block[:MOST_ROWS]]
    widths = {len(row) for row in rows}
    if widths == {1}:
        return SlurmTable("hosts", [{"NODELIST": row[0]} for row in rows])
    if len(block) > 1 and max(widths) - min(widths) <= 3 and min(widths) >= 2:
        return SlurmTable("columns", [_numbered(row) for row in rows])
    return None


def _numbered(row: list[str]) -> Record:
    return {f"column {number}": cell.strip() for number, cell in enumerate(row, 1)}
