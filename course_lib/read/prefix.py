"""Prefixes of launchers and loggers: a line's rank and time.

Prefixes stack in any order (`9: [default3]: [2026-04-15 11:19:02] …`), so they are removed one by
one. Only a certain number becomes a rank; `task` is the number from `srun --label`, which is a rank
or a node, depending on the launch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

ANSI = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\n]{0,200}\x07")

_STYLE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

_STAMP = rb"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(?:Z|[+-]\d\d:?\d\d)?"
_PEEL = re.compile(
    rb"(?:"
    rb"(?P<space>[ \t>]+)"
    rb"|(?P<label>\d{1,6}): ?"
    rb"|\[(?P<role>[A-Za-z_]{1,20}?)(?:(?P<replica>\d{1,5})\|)?(?P<local>\d{1,5})\]:"
    rb"|\[\d{1,5},(?:mpirank:)?(?P<mpi>\d{1,6})(?:,[\w.-]{1,60})?\]<std(?:out|err|diag)>"
    rb"(?:@(?P<mpi_host>[\w.-]{1,80}))?:"
    rb"|\[?" + _STAMP.replace(rb"(\d{4}", rb"(?P<stamp>\d{4}") + rb"\]?(?=[ \t:\[]|$)"
    rb"|\[(?P<bracket>(?i:rank)) ?(?P<rank>\d{1,6})\]"
    rb"|\((?P<actor>[A-Za-z_][\w.-]{0,60}),? pid=\d{1,9}(?:, ip=(?P<ip>[\d.]{7,15}))?\)"
    rb"|(?P<job>[A-Za-z_][\w.-]{0,60})/(?P<index>\d{1,5})(?=[ \t])"
    rb"|(?P<host>[A-Za-z0-9][\w.-]{0,80}): "
    rb")"
)
_HOST = re.compile(
    rb"localhost|(?:\d{1,3}\.){3}\d{1,3}|[A-Za-z][\w.-]*\d[\w.-]*|[A-Za-z]\w*-[\w.-]+"
)
_NOT_HOST = re.compile(
    rb"(?i)error|warning|exception|info|debug|step|epoch|iter|cuda|batch|nccl|loss|rank"
)
_MOST_PEELS = 12


@dataclass(frozen=True)
class Prefix:
    """Prefix of a line. `length` is its number of bytes; `local_rank` counts within a node."""

    rank: int | None = None
    task: int | None = None
    local_rank: int | None = None
    node: str | None = None
    stamp: str | None = None
    length: int = 0

    @property
    def printer(self) -> tuple[int | None, int | None, int | None, str | None]:
        return self.rank, self.task, self.local_rank, self.node


_NO_PREFIX = Prefix()


def without_colours(line: bytes) -> bytes:
    return ANSI.sub(b"", line) if b"\x1b" in line else line


def visible(text: str) -> str:
    """Return a program's text for a terminal, without colours and cursor movements. A carriage
    return starts a line, and other control characters are escaped."""
    text = re.sub(r"\r+\n?", "\n", _STYLE.sub("", text))
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def parse(line: bytes) -> Prefix:
    """Return the prefix of a line (without colours: see `without_colours`)."""
    return _parse(line[:240])


@lru_cache(maxsize=4096)
def _parse(line: bytes) -> Prefix:
    known: dict[str, bytes] = {}
    at = 0
    for _ in range(_MOST_PEELS):
        match = _PEEL.match(line, at)
        if match is None or not _believable(match):
            break
        for name, value in match.groupdict().items():
            if value is not None:
                known.setdefault(name, value)
        if match["local"] and match["role"] and match["role"].lower() == b"rank":
            known["rank"] = match["local"]
            known.pop("local")
        at = match.end()
    return _prefix(known, at) if at else _NO_PREFIX


def _believable(match: re.Match[bytes]) -> bool:
    host = match["host"]
    if host is None:
        return match.end() > match.start()
    return bool(_HOST.fullmatch(host)) and not _NOT_HOST.search(host)


def _prefix(known: dict[str, bytes], length: int) -> Prefix:
    def number(*names: str) -> int | None:
        return next((int(known[name]) for name in names if name in known), None)

    node = known.get("host") or known.get("ip") or known.get("mpi_host")
    return Prefix(
        rank=number("rank", "mpi"),
        task=number("label", "replica"),
        local_rank=number("local"),
        node=node.decode("ascii", "replace") if node else None,
        stamp=known["stamp"].decode("ascii").replace(",", ".") if "stamp" in known else None,
        length=length,
    )


def label_length(line: bytes) -> int:
    """Return the length of the outermost label. A launcher repeats it when it cuts a line."""
    match = re.match(rb"\s*(?:\d{1,6}|[\w.-]{1,80}): ?(?:\[[A-Za-z_]{1,20}\d{1,5}\]: ?)?", line)
    return match.end() if match else 0
