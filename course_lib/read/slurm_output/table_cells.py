"""Cells of printed tables: delimited, under a ruler, or only roughly aligned with the header."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import islice

from course_lib.read.slurm_output.sacct_fields import SACCT_FIELDS

Record = dict[str, str]
Span = tuple[int, int]
MOST_ROWS = 1_000_000
MOST_COLUMNS = 300  # Slurm has some hundred; a broken header of thousands would fill every row
_WORD = re.compile(r"\S+")
_FIRST_MARK = re.compile(r" *[A-Za-z]\w*(?:\([\w/]+\))?([^\w(]+)")


def is_ruler(line: str) -> bool:
    return bool(line.strip()) and set(line.strip()) <= {"-", " "}


def under_ruler(header: str, ruler: str, lines: list[str]) -> list[Record]:
    """Cells as wide as the dashes under the header. A name that fills its column may be cut: it
    stands for the only field that begins so."""
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
    """The mark between the columns of a header, whatever was given as `--delimiter`: what stands
    between two names that are known, or follows the only one. Blanks only where sacct printed
    one after each name: it aligns no table without a ruler."""
    match = _FIRST_MARK.match(header)
    if match is None:
        return None
    if not match[1].strip(" "):
        return " " if {*header.removesuffix(" ").split(" ")} <= SACCT_FIELDS else None
    words = [word.strip() for word in header.split(match[1])]
    few = 1 if not words[-1] and len(words) == 2 else 2
    return match[1] if sum(word in known for word in words) >= few else None


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
    """Names, constraints and command lines may hold the delimiter, and newlines too. `sacct -p`
    ends each line with one more: a last column without name, in which nothing stands."""
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


_MOST_EXTRA = 40
_FREE = {
    "JobName", "NAME", "Name", "Constraints", "FEATURES", "SubmitLine", "Comment", "COMMENT",
    "AdminComment", "SystemComment", "WorkDir", "WORK_DIR", "COMMAND", "Command", "REASON",
    "Reason", "State", "NodeList", "NODELIST", "NODELIST(REASON)", "AllocTRES", "ReqTRES",
    "TRESUsageInTot",
}  # fmt: skip
_TRES = re.compile(r"[\w/]+=[^=,]+(?:,[\w/]+=[^=,]+)*")
_HOST = r"[\w.-]+(?:\[[\d,-]+\][\w.-]*)*"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*|None assigned|\(.*\)")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT[\d:]{8}|Unknown|None|N/A|NULL")
_DURATION = re.compile(r"(?:\d+-)?\d+:[\d:.]+|UNLIMITED|INVALID|Partition_Limit|NOT_SET|N/A")
_NUMBER = re.compile(r"\d+")
_TYPES = {
    "": re.compile(""),  # what follows the last mark of `sacct -p`
    **dict.fromkeys(("AllocTRES", "ReqTRES", "TRESUsageInTot"), _TRES),
    **dict.fromkeys(("NodeList", "NODELIST", "NODELIST(REASON)"), _HOSTS),
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
