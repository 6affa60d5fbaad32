"""Steps that came after an error, in logs of trainers that are no Megatron.

A run that made more of them has survived the error.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from course_lib.read import lines
from course_lib.read.files import Source

_STEP = re.compile(
    rb"(?i)\bglobal_step=(?P<global>\d{1,12})|\bstep=(?P<deepspeed>\d{1,12}), skipped=|"
    rb"\bEpoch (?P<bar>\d{1,9}: {1,4}\d{1,3}%\|[^|\r\n]{0,200}\| {0,4}\d{1,12}/)|"
    rb"(?:\bstep|\biter(?:ation)?)[ :=#]{1,3}(?P<said>\d{1,12})\b[^\r\n]{0,200}?\bloss\b|"
    rb"(?P<end>'train_runtime': |`Trainer\.fit` stopped: `max_|"
    rb"\btraining (?:has |is |was )?(?:successfully )?(?:finished|done|completed?)\b|"
    rb"\bfinished training\b)"
)
_THE_END = 1 << 20
"""Worth so many steps: who reached the end has survived all before."""


@dataclass(frozen=True)
class LaterSteps:
    """`after` counts different steps only: many ranks may tell of one."""

    at: tuple[int, ...]
    left: tuple[int, ...]

    def after(self, line: int) -> int:
        place = bisect_right(self.at, line)
        return self.left[place] if place < len(self.left) else 0


def steps_of(source: Source) -> LaterSteps:
    told = sorted([*_read_by_trainers(source), *_others(source)], reverse=True)
    seen: set[object] = set()
    left, ends = [], 0
    for _, step in told:
        seen.add(step)
        ends += step == "end"
        left.append(len(seen) + (_THE_END if ends else 0))
    return LaterSteps(tuple(line for line, _ in reversed(told)), tuple(reversed(left)))


def _read_by_trainers(source: Source) -> Iterator[tuple[int, str]]:
    from course_lib.read.training_logs.reader import TrainingReader

    reader = TrainingReader()
    reader.read(source)
    log = reader.result(last=True)
    for table in (log.iterations, log.repeated):
        if not table.empty:
            for line, step in zip(table["line"], table["iteration"], strict=True):
                yield int(line), f"{step:g}"


def _others(source: Source) -> Iterator[tuple[int, str]]:
    line = 1
    for block in lines.blocks(source.path):
        counted = 0
        for match in _STEP.finditer(block):
            line += block.count(b"\n", counted, match.start())
            counted = match.start()
            name = match.lastgroup or ""
            yield line, "end" if name == "end" else match[name].decode("ascii", "replace")
        line += block.count(b"\n", counted)
