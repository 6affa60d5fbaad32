"""What the lines of NCCL's log said, before communicators are put together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from course_lib.read.nccl_logs.line_patterns import Link
from course_lib.read.nccl_logs.result import (
    RING_COLUMNS,
    TEST_COLUMNS,
    TREE_COLUMNS,
    WARNING_COLUMNS,
)
from course_lib.read.nccl_logs.threads import ChannelRows, Slot, Threads
from course_lib.read.rows import Rows


@dataclass
class Collected:
    """`line` counts from 1 in the file that is being read, `lines` those of the files before it."""

    threads: Threads = field(default_factory=Threads)
    rows: ChannelRows = field(default_factory=ChannelRows)
    links: list[Link] = field(default_factory=list)
    rings: Rows = field(default_factory=lambda: Rows(RING_COLUMNS))
    trees: Rows = field(default_factory=lambda: Rows(TREE_COLUMNS))
    warnings: Rows = field(default_factory=lambda: Rows(WARNING_COLUMNS, ["rank"]))
    tests: Rows = field(default_factory=lambda: Rows(TEST_COLUMNS))
    operations: Counter[tuple[str, int, str, str]] = field(default_factory=Counter)
    versions: list[str] = field(default_factory=list)
    library: str = "NCCL"
    network: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    test_ranks: list[tuple[int, int, str, int, str]] = field(default_factory=list)
    average: float | None = None
    simulated: str = ""
    files: list[str] = field(default_factory=list)
    lines: int = 0
    line: int = 0

    @property
    def slots(self) -> list[Slot]:
        return self.threads.slots

    @property
    def hosts(self) -> dict[str, None]:
        return self.threads.hosts
