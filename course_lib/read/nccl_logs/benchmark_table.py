"""The table that nccl-tests prints, even where log lines ran into its rows."""

from __future__ import annotations

from course_lib.read import prefix
from course_lib.read.nccl_logs import line_patterns
from course_lib.read.nccl_logs.collected import Collected

_NAMES = ("size_bytes", "count", "dtype", "redop", "root")
_HALF = ("time_us", "algbw_gb_s", "busbw_gb_s", "wrong")
_COLUMNS = (*_NAMES, *(f"out_{name}" for name in _HALF), *(f"in_{name}" for name in _HALF))


class TestTable:
    """Collects the tokens of a row over as many lines as it takes."""

    def __init__(self, collected: Collected) -> None:
        self._collected = collected
        self.inside = False
        self.tokens: list[bytes] = []

    def add(self, text: bytes) -> None:
        if b"#" in text:
            self._comment(text)
        elif self.inside or b" float " in text:
            self._row(text)

    def _comment(self, text: bytes) -> None:
        if match := line_patterns.TEST_RANK.search(text):
            host = match[3].decode("utf-8", "replace")
            self._collected.hosts.setdefault(host)
            bus = match[5].decode().removeprefix("0x").replace(":", "").split(".")[0] + "0"
            rank = (int(match[1]), int(match[2]), host, int(match[4]), bus)
            if len(self._collected.test_ranks) < 100_000:
                self._collected.test_ranks.append(rank)
        elif match := line_patterns.AVERAGE.search(text):
            self._collected.average = float(match[1]) if match[1].count(b".") <= 1 else None
            self.inside = False
        elif b"busbw" in text:
            self.inside = True
            self.tokens = []

    def _row(self, text: bytes) -> None:
        text = text[prefix.parse(text[:60]).length :] if text[:1] in b"[0123456789" else text
        thread = next(
            (
                match
                for match in line_patterns.THREAD.finditer(text)
                if match[1].lstrip(b"-0123456789.").decode("ascii", "replace")
                in self._collected.hosts
            ),
            None,
        )
        if thread is not None:
            glued = len(thread[1]) - len(thread[1].lstrip(b"-0123456789."))
            text = text[: thread.start() + glued]
        words = text.split()
        if not words or not all(line_patterns.TEST_TOKEN.fullmatch(word) for word in words):
            return
        if len(self.tokens) + len(words) > len(_COLUMNS) or _starts_row(words):
            self._finish()
        self.tokens += words
        if len(self.tokens) == len(_COLUMNS):
            self._finish()

    def _finish(self) -> None:
        tokens, self.tokens = self.tokens, []
        if len(tokens) < len(_NAMES) + 3 or not tokens[0].isdigit():
            return
        row: dict[str, object] = {}
        for name, token in zip(_COLUMNS, tokens, strict=False):
            text = token.decode()
            row[name] = text if name in ("dtype", "redop") else _number(text)
        self._collected.tests.add(line=self._collected.line, **row)


def _starts_row(words: list[bytes]) -> bool:
    return len(words) >= 4 and words[0].isdigit() and words[2].isalpha()


def _number(text: str) -> float | int | None:
    try:
        return int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        return None
