"""`read.slurm`: reader of squeue, sinfo, sacct and scontrol output, in any format.

Tables are delimited, below a ruler, or only roughly aligned with their header. The reader is for
saved text: a program that runs the commands should request a delimited format."""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from course_lib.read import lines
from course_lib.read.slurm_output.result import Record, SlurmTable, SlurmText

_SACCT_NAMES = """
Account AdminComment AllocCPUS AllocNodes AllocTRES AssocID AveCPU AveCPUFreq AveDiskRead
AveDiskWrite AvePages AveRSS AveVMSize BlockID Cluster Comment Constraints ConsumedEnergy
ConsumedEnergyRaw Container CPUTime CPUTimeRAW DBIndex DerivedExitCode Elapsed ElapsedRaw
Eligible End ExitCode Extra FailedNode Flags GID Group JobID JobIDRaw JobName Layout Licenses
MaxDiskRead MaxDiskReadNode MaxDiskReadTask MaxDiskWrite MaxDiskWriteNode MaxDiskWriteTask
MaxPages MaxPagesNode MaxPagesTask MaxRSS MaxRSSNode MaxRSSTask MaxVMSize MaxVMSizeNode
MaxVMSizeTask McsLabel MinCPU MinCPUNode MinCPUTask NCPUS NNodes NodeList NTasks Partition
Planned PlannedCPU PlannedCPURAW Priority QOS QOSRAW QOSREQ Reason ReqCPUFreq ReqCPUFreqGov
ReqCPUFreqMax ReqCPUFreqMin ReqCPUS ReqMem ReqNodes ReqTRES Reservation ReservationId Reserved
Restarts ResvCPU ResvCPURAW SLUID Start State StdErr StdIn StdOut Submit SubmitLine Suspended
SystemComment SystemCPU Timelimit TimelimitRaw TotalCPU TRESUsageInAve TRESUsageInMax
TRESUsageInMaxNode TRESUsageInMaxTask TRESUsageInMin TRESUsageInMinNode TRESUsageInMinTask
TRESUsageInTot TRESUsageOutAve TRESUsageOutMax TRESUsageOutMaxNode TRESUsageOutMaxTask
TRESUsageOutMin TRESUsageOutMinNode TRESUsageOutMinTask TRESUsageOutTot UID User UserCPU WCKey
WCKeyID WorkDir
"""
SACCT_FIELDS = frozenset(_SACCT_NAMES.split())


Span = tuple[int, int]
MOST_ROWS = 1_000_000
MOST_COLUMNS = 300  # Slurm has about a hundred; a broken header of thousands would fill every row
_WORD = re.compile(r"\S+")
_FIRST_MARK = re.compile(r" *[A-Za-z]\w*(?:\([\w/]+\))?([^\w(]+)")


def is_ruler(line: str) -> bool:
    return bool(line.strip()) and set(line.strip()) <= {"-", " "}


def under_ruler(header: str, ruler: str, lines: list[str]) -> list[Record]:
    """Return cells as wide as the dashes below the header. A name that fills its column may be cut;
    then it means the only field with that beginning."""
    spans = [match.span() for match in islice(_WORD.finditer(ruler), MOST_COLUMNS)]
    names = {span: _whole(header[slice(*span)].strip(), span[1] - span[0]) for span in spans}
    return [
        {name: line[slice(*span)].strip() for span, name in names.items() if name} for line in lines
    ]


def _whole(name: str, width: int) -> str:
    if name in SACCT_FIELDS or len(name) < width:
        return name
    meant = [field for field in SACCT_FIELDS if name and field.startswith(name)]
    return meant[0] if len(meant) == 1 else name


def delimiter_of(header: str, known: frozenset[str]) -> str | None:
    """Return the delimiter of a header, with any `--delimiter`: the text between two known names,
    or after the only name. A blank is a delimiter only if it follows each name exactly once, since
    sacct aligns no table without a ruler."""
    match = _FIRST_MARK.match(header)
    if match is None:
        return None
    if not match[1].strip(" "):
        return " " if {*header.removesuffix(" ").split(" ")} <= SACCT_FIELDS else None
    words = [word.strip() for word in header.split(match[1])]
    few = 1 if not words[-1] and len(words) == 2 else 2
    return match[1] if sum(word in known for word in words) >= few else None


def aligned(header: str, line: str) -> Record:
    """Return the cells of a table without a ruler; the last one takes the rest.

    Usually there are as many words as columns. If a cell is empty or contains blanks, each word
    belongs to the column that overlaps it most."""
    columns = list(islice(_WORD.finditer(header), MOST_COLUMNS))
    names = [column[0] for column in columns]
    words = list(_WORD.finditer(line))
    if len(words) == len(columns):
        return {name: word[0] for name, word in zip(names, words, strict=True)}
    reason = line.find(" (")
    if len(words) > len(columns) and reason > 0 and line.rstrip().endswith(")"):
        before = _WORD.findall(line[:reason])
        if len(before) == len(columns) - 1:
            return dict(zip(names, [*before, line[reason:].strip()], strict=True))
    cells: dict[str, list[str]] = {name: [] for name in names}
    spans = [column.span() for column in columns]
    place = 0
    for word in words:
        place = nearest(spans, word.span(), place)
        cells[names[place]].append(word[0])
    return {name: " ".join(parts) for name, parts in cells.items()}


def nearest(columns: list[Span], word: Span, first: int) -> int:
    """Return the column, from `first` on, that overlaps the word most, or the nearest column.
    Without an overlap only the neighbouring columns are compared: a line may have thousands of
    words, and each would be compared with hundreds of columns."""
    left = bisect_right(columns, word[0], key=lambda column: column[1]) - 1
    right = bisect_left(columns, word[1], key=lambda column: column[0])
    begin = max(first, left)
    candidates = range(begin, max(begin, min(right, len(columns) - 1)) + 1)
    return max(candidates, key=lambda number: _overlap(columns[number], word))


def _overlap(column: Span, word: Span) -> int:
    """Return the length of the overlap, or minus the distance."""
    return min(column[1], word[1]) - max(column[0], word[0])


def table_of_delimited(block: list[str], delimiter: str) -> list[Record]:
    """Return rows of a delimited table. Names, constraints and command lines may contain the
    delimiter and newlines. `sacct -p` ends each line with another delimiter: an empty last
    column."""
    names = [name.strip() for name in block[0].split(delimiter)[:MOST_COLUMNS]]
    rows: list[Record] = []
    cells: list[str] = []
    for line in block[1 : MOST_ROWS + 1]:
        parts = line.split(delimiter)
        if cells and len(cells) + len(parts) - 1 <= len(names) + _MOST_EXTRA:
            parts = [*cells[:-1], f"{cells[-1]}\n{parts[0]}", *parts[1:]]
        elif cells:
            rows.append(fitted(names, cells, delimiter))
        cells = parts
        if len(cells) >= len(names):
            rows.append(fitted(names, cells, delimiter))
            cells = []
    if cells and any(cells):
        rows.append(fitted(names, cells, delimiter))
    return rows


# A row with more cells than names has cells that contain the delimiter; only free text may.
_MOST_EXTRA = 40
_FREE = re.compile(
    r"(?i)(?:job)?name|constraints|features|submitline|\w*comment|work_?dir|command|reason|"
    r"state|nodelist(?:\(reason\))?|\w*tres\w*"
)
_HOST = r"[\w.-]+(?:\[[\d,-]+\][\w.-]*)*"
# Values of other columns, by their names. After the last delimiter of `sacct -p` nothing follows.
_VALUES = (
    ("", ""),
    (r"(?i)jobid", r"\d+\S*"),
    (r"\w*ExitCode", r"\d+:\d+"),
    (r"(?i)state", r"[A-Z_]{4,}(?: by \S+)?\+?"),
    (r"Start|End|Submit|Eligible|START_TIME|END_TIME",
     r"\d{4}-\d\d-\d\dT[\d:]{8}|Unknown|None|N/A|NULL"),
    (r"Elapsed|CPUTime|Suspended|Timelimit|(?:Total|User|System)CPU",
     r"(?:\d+-)?\d+:[\d:.]+|UNLIMITED|INVALID|Partition_Limit|NOT_SET|N/A"),
    (r"NCPUS|NNodes|[UG]ID|(?:Alloc|Req)(?:CPUS|Nodes)|(?:Elapsed|Timelimit|JobID)Raw|CPUTimeRAW|"
     r"AssocID|DBIndex", r"\d+"),
    (r"(?i)nodelist(?:\(reason\))?", rf"{_HOST}(?:,{_HOST})*|None assigned|\(.*\)"),
    (r"AllocTRES|ReqTRES|TRESUsageInTot", r"[\w/]+=[^=,]+(?:,[\w/]+=[^=,]+)*"),
)  # fmt: skip


def fitted(names: list[str], cells: list[str], delimiter: str) -> Record:
    """Return cells by name. If there are more cells than names, free-text columns take several, so
    that other columns have valid values. Fewer cells may be the end of a row."""
    extra = len(cells) - len(names)
    if extra < 0:
        left, right = cells, [""] * -extra + cells
        scores = [sum(map(_likely, names, row)) for row in (left, right)]
        cells = right if scores[1] > scores[0] else left
    elif 0 < extra <= _MOST_EXTRA:
        cells = _best(names, cells, delimiter, extra)
    return {name: cell.strip() for name, cell in zip(names, cells, strict=False) if name}


def _likely(name: str, cell: str) -> int:
    kind = _form_of(name)
    if kind is None or not cell:
        return 0
    return 1 if kind.fullmatch(cell.strip()) else -2


@cache
def _form_of(name: str) -> re.Pattern[str] | None:
    found = (value for names, value in _VALUES if re.fullmatch(names, name))
    return next(map(re.compile, found), None)


def _best(names: list[str], cells: list[str], delimiter: str, extra: int) -> list[str]:
    """Return the distribution of extra cells for which most columns have valid values."""
    best: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}
    for place, name in enumerate(names):
        following: dict[int, tuple[int, tuple[int, ...]]] = {}
        for shift, (score, widths) in best.items():
            for more in range(extra - shift + 1) if _FREE.fullmatch(name) else (0,):
                taken = cells[place + shift : place + shift + more + 1]
                gain = _likely(name, delimiter.join(taken))
                found = (score + gain, (*widths, more))
                if shift + more not in following or found[0] > following[shift + more][0]:
                    following[shift + more] = found
        best = following
    if extra not in best:
        return cells
    joined, at = [], 0
    for more in best[extra][1]:
        joined.append(delimiter.join(cells[at : at + more + 1]))
        at += more + 1
    return joined


LARGEST_TEXT_BYTES = 64 << 20

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
    """Read `source`: a file, or the text itself."""
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
    """Read `--json`, or one object per line from `--format`."""
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
    """Unwrap a value of newer versions: a number that may be unset, a state with its reason,
    several states in a list."""
    if isinstance(value, dict) and {"set", "infinite", "number"} <= value.keys():
        return "UNLIMITED" if value["infinite"] else str(value["number"]) if value["set"] else ""
    if name.endswith("state") and isinstance(value, dict) and "current" in value:
        value = value["current"]
    if name.endswith("state") and isinstance(value, list):
        return "+".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)


def _pairs(text: str) -> SlurmText | None:
    """Read `scontrol show`: records of Name=value, over several lines or in one."""
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
    """Yield tables: each begins with its header; prompts, blank lines and dates separate tables."""
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
    """Split at newlines and record separators only: cells may contain other line breaks."""
    return re.split(r"\r?\n|\x1e\n?", text.removesuffix("\n"))


def _is_header(line: str) -> bool:
    """Tell whether a line is a header: two known names, or the only one; not a row (some values are
    names too), nor a command line with these names."""
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
    """Read a table without header: columns are numbered; a list of `name: value` is one record."""
    for mark in ("\x1f", "|", "^^^", ";", "\t", ","):
        counts = {line.count(mark) for line in block}
        if min(counts) and not (mark == "," and (len(counts) > 1 or any("  " in x for x in block))):
            rows = [line.split(mark) for line in block[:MOST_ROWS]]
            if len(counts) == 1 and not any(row[-1] for row in rows):  # from `sacct -n -p`
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
