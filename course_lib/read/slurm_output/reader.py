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
from course_lib.read.slurm_output.table_cells import aligned, is_ruler, split_at, table_of_delimited

LARGEST_TEXT_BYTES = 64 << 20
MOST_ROWS = 1_000_000

_SUBMITTED = re.compile(r"Submitted batch job (\d{1,18})")
_RECORD_KEYS = ("NodeName", "JobId", "PartitionName", "ReservationName", "Slurmctld", "StepId")
_PAIR = re.compile(r"(?:^|(?<=\s))([A-Za-z][\w:/]{0,60})=")
_STATISTIC = re.compile(r"\s*([A-Za-z][\w ()/,.-]{2,80}?):\s+(\S.{0,200})")
_HEADERS = {
    "JOBID", "PARTITION", "NAME", "USER", "ST", "STATE", "TIME", "NODES", "NODELIST", "AVAIL",
    "NODELIST(REASON)", "TIMELIMIT", "TIME_LIMIT", "TIME_LIMI", "REASON", "TIMESTAMP", "ACCOUNT",
    "JobID", "JobName", "State", "ExitCode", "Partition", "Account", "AllocCPUS", "Elapsed",
    "HOSTNAMES", "CPUS", "MEMORY", "GRES", "PRIORITY", "QOS", "START_TIME", "NodeList", "MaxRSS",
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
    return {
        str(name): value if isinstance(value, str) else json.dumps(value)
        for name, value in item.items()
    }


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
    for line in _lines(text):
        begins = _is_header(line)
        ends = not delimited and (not line.strip() or _is_between(line))
        if (begins or ends) and block:
            yield block
            block, delimited = [], False
        if not ends:
            delimited = delimited if block else _delimiter(line) is not None
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


def _delimiter(header: str) -> str | None:
    """Of a header: the mark between its columns."""
    if not _is_header(header):
        return None
    return next((mark for mark in ("\x1f", "|", "^^^") if mark in header), None)


def _is_header(line: str) -> bool:
    words = re.split(r"[|\x1f,\s^]+", line.strip())
    return sum(word in _HEADERS for word in words) >= 2


def _block(block: list[str]) -> SlurmTable | None:
    header = block[0]
    if _is_header(header):
        if delimiter := _delimiter(header):
            return SlurmTable(_kind(header), table_of_delimited(block, delimiter))
        if len(block) > 1 and is_ruler(block[1]):
            return SlurmTable(
                _kind(header), [split_at(block[1], header, line) for line in block[2:]]
            )
        return SlurmTable(_kind(header), [aligned(header, line) for line in block[1:]])
    return _headless(block)


def _kind(header: str) -> str:
    words = set(re.split(r"[|\x1f\s^]+", header))
    if {"REASON", "TIMESTAMP"} <= words:
        return "sinfo -R"
    if words & {"AVAIL", "HOSTNAMES"} or ("TIMELIMIT" in words and "JOBID" not in words):
        return "sinfo"
    return "sacct" if words & {"JobID", "JobIDRaw", "JobName"} else "squeue"


def _headless(block: list[str]) -> SlurmTable | None:
    """Columns without names are numbered; a list of `name: value` is one record."""
    for mark in ("\x1f", "|", "^^^", ","):
        counts = {line.count(mark) for line in block}
        if min(counts) and not (mark == "," and (len(counts) > 1 or any("  " in x for x in block))):
            rows = [line.split(mark) for line in block[:MOST_ROWS]]
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
