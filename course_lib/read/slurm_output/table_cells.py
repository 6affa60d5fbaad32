"""Cells of printed tables: delimited, under a ruler, or only roughly aligned with the header."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import islice

Record = dict[str, str]
Span = tuple[int, int]
MOST_ROWS = 1_000_000
MOST_COLUMNS = 300  # Slurm has some hundred; a broken header of thousands would fill every row
_WORD = re.compile(r"\S+")


def is_ruler(line: str) -> bool:
    return bool(line.strip()) and set(line.strip()) <= {"-", " "}


def split_at(ruler: str, header: str, line: str) -> Record:
    """Cells as wide as the dashes under the header."""
    spans = [match.span() for match in islice(_WORD.finditer(ruler), MOST_COLUMNS)]
    return {header[a:b].strip(): line[a:b].strip() for a, b in spans if header[a:b].strip()}


def aligned(header: str, line: str) -> Record:
    """Cells of a table without ruler; the last one takes what is left.

    Usually there are as many words as columns. Where a cell is empty or holds blanks, each word
    goes to the column under which most of it stands.
    """
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
    """The column, from the `first` on, under which most of the word stands; else the closest.

    Of columns that the word does not touch only its neighbours count: a line may have thousands
    of words, and each would look at hundreds of columns.
    """
    left = bisect_right(columns, word[0], key=lambda column: column[1]) - 1
    right = bisect_left(columns, word[1], key=lambda column: column[0])
    begin = max(first, left)
    candidates = range(begin, max(begin, min(right, len(columns) - 1)) + 1)
    return max(candidates, key=lambda number: _overlap(columns[number], word))


def _overlap(column: Span, word: Span) -> int:
    """Length of what is shared, else minus the distance."""
    return min(column[1], word[1]) - max(column[0], word[0])


def table_of_delimited(block: list[str], delimiter: str) -> list[Record]:
    """Names, constraints and command lines may hold the delimiter, and newlines too."""
    names = [name.strip() for name in block[0].split(delimiter)[:MOST_COLUMNS]]
    names = names[:-1] if names and not names[-1] else names
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


_MOST_EXTRA = 40
_FREE = {
    "JobName", "NAME", "Name", "Constraints", "FEATURES", "SubmitLine", "Comment", "COMMENT",
    "AdminComment", "SystemComment", "WorkDir", "WORK_DIR", "COMMAND", "Command", "REASON",
    "Reason",
}  # fmt: skip
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT[\d:]{8}|Unknown|None|N/A|NULL")
_DURATION = re.compile(r"(?:\d+-)?\d+:[\d:.]+|UNLIMITED|INVALID|Partition_Limit|NOT_SET|N/A")
_NUMBER = re.compile(r"\d+")
_TYPES = {
    **dict.fromkeys(("Start", "End", "Submit", "Eligible", "START_TIME", "END_TIME"), _TIMESTAMP),
    **dict.fromkeys(("ExitCode", "DerivedExitCode"), re.compile(r"\d+:\d+")),
    **dict.fromkeys(("State", "STATE"), re.compile(r"[A-Z_]{4,}(?: by \S+)?\+?")),
    **dict.fromkeys(
        ("Elapsed", "CPUTime", "Suspended", "TotalCPU", "Timelimit", "UserCPU", "SystemCPU"),
        _DURATION,
    ),
    **dict.fromkeys(
        ("NCPUS", "NNodes", "UID", "GID", "AllocCPUS", "AllocNodes", "ElapsedRaw", "ReqCPUS",
         "ReqNodes", "TimelimitRaw", "AssocID", "DBIndex", "JobIDRaw", "CPUTimeRAW"),
        _NUMBER,
    ),
    **dict.fromkeys(("JobID", "JOBID"), re.compile(r"\d+\S*")),
}  # fmt: skip


def fitted(names: list[str], cells: list[str], delimiter: str) -> Record:
    """Cells under the names, where more or fewer of them came than there are names.

    Columns of free text may take several cells; what the other columns hold tells which.
    """
    extra = len(cells) - len(names)
    if extra < 0:
        left, right = cells, [""] * -extra + cells
        cells = right if _score(names, right) > _score(names, left) else left
    elif 0 < extra <= _MOST_EXTRA:
        cells = _best(names, cells, delimiter, extra)
    return {name: cell.strip() for name, cell in zip(names, cells, strict=False) if name}


def _likely(name: str, cell: str) -> int:
    kind = _TYPES.get(name)
    if kind is None or not cell:
        return 0
    return 1 if kind.fullmatch(cell.strip()) else -2


def _score(names: list[str], cells: list[str]) -> int:
    return sum(_likely(name, cell) for name, cell in zip(names, cells, strict=False))


def _best(names: list[str], cells: list[str], delimiter: str, extra: int) -> list[str]:
    """The way of sharing out the extra cells under which most columns hold what they should."""
    best: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}
    for place, name in enumerate(names):
        following: dict[int, tuple[int, tuple[int, ...]]] = {}
        for shift, (score, widths) in best.items():
            for more in range(extra - shift + 1) if name in _FREE else (0,):
                gain = 0 if more else _likely(name, cells[place + shift])
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
