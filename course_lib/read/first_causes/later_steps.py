"""Steps after an error, and the end of a run, in logs of any trainer.

A run that made further steps, or that reports its end, survived the error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from course_lib.read import lines
from course_lib.read.files import Source
from course_lib.read.first_causes.quoted_text import is_quoted

_STEP = re.compile(
    rb"(?i)\bglobal_step=(?P<global>\d{1,12})|\bstep=(?P<deepspeed>\d{1,12}), skipped=|"
    rb"\bEpoch (?P<bar>\d{1,9}: {1,4}\d{1,3}%\|[^|\r\n]{0,200}\| {0,4}\d{1,12}/)|"
    rb"\{'loss': [^{}\r\n]{0,1000}'epoch': '?(?P<epoch>[\d.]{1,30})|"
    rb"\bBatch (?P<batch>\d{1,12}) Loss: |"
    rb"(?:\bstep|\biter(?:ation)?)[ :=#]{1,3}(?P<said>\d{1,12})\b[^\r\n]{0,200}?\bloss\b|"
    rb"(?:\bstep|\biter(?:ation)?)[ :=#]{1,20}(?P<of>\d{1,12})/ {0,20}\d"
)
_TRAINING = (
    rb"(?:pre-?|fine-?)?(?:train|tun)ing(?: run| loop| job| process| script)?|"
    rb"(?:run|job|experiment|benchmark|evaluation|all tests?)(?= (?:has |have |is |was )?"
    rb"(?:been )?(?:successfully|\w{4,9} success))"
)
_DONE = rb"(?:finished|done|completed?|ended)"
# Messages of trainers, launchers and test runs at their end.
_END = re.compile(
    rb"(?i)[\"']train_runtime[\"']: |`Trainer\.fit` stopped: `max_|\*\* train metrics \*\*|"
    rb"\bexiting program (?:at|after) .{0,20}\d|"
    rb"\"run_stop\".{0,200}\"status\": \"success\"|\btotal training time\b|"
    rb"\btest (?:set|accuracy|results?)\b|"
    rb"\bCOMPLETED\b.{0,80}\bexit ?code[:=]? ?0\b|"
    rb"= \d{1,6} passed\b(?!.{0,80}\b(?:failed|error)).{0,80} in \d[\d.]{0,9}s|"
    rb"(?<!before )(?<!until )(?<!when )(?<!once )\b(?:" + _TRAINING + rb")[ :\]-]{1,3}"
    rb"(?:has |have |is |was )?(?:been )?(?:now )?(?:successfully )?" + _DONE + rb"\b|"
    rb"\b(?:finished|completed|done)(?: with)?(?: the)? (?:pre-?|fine-?)?(?:train|tun)ing\b|"
    rb"\bfinal[ _](?:\w{1,20}[ _]){0,2}(?:loss|acc(?:uracy)?|results?|score|perplexity|metrics)\b|"
    rb"\b(?:exited|finished|ended|completed|returned)\b.{0,20}\b(?:exit )?(?:code|status):? 0\b|"
    rb"(?:\bstep|\biter(?:ation)?)[ :=#]{1,20}(\d{1,12})/ {0,20}\1\b"
)


# Further steps that show that an error was not the end. Fewer are enough if something else ended
# the run, or if it made its last step: one may have been running when a rank failed.
SURVIVED_AFTER, SURVIVED_BEFORE_THE_END = 3, 2


@dataclass(frozen=True)
class LaterSteps:
    """Steps of a log. `last` has the lines of the last few distinct steps, which several ranks may
    print. `end` is the last line that reports the end of the run, or 0."""

    last: tuple[int, ...]
    end: int

    def after(self, line: int) -> int:
        return sum(line < at for at in self.last)


def steps_of(source: Source) -> LaterSteps:
    ends = [*_matches(source, _END)][::-1]
    end = next((line for line, match in ends if not _is_quoted(match)), 0)
    last: dict[bytes, int] = {}
    for line, step in _matches(source, _STEP):
        number = step[step.lastgroup or ""]
        last.pop(number, None)
        last[number] = line
        if len(last) > SURVIVED_AFTER:
            del last[next(iter(last))]
    return LaterSteps(tuple(last.values()), end)


def _is_quoted(match: re.Match[bytes]) -> bool:
    text, end = match.string, match.string.find(b"\n", match.end())
    start = text.rfind(b"\n", 0, match.start()) + 1
    of_record = match[0][:1] in b"\"'`" or re.search(rb"\{\s*[\"']", text[start : match.start()])
    return not of_record and is_quoted(text, start, len(text) if end < 0 else end)


def _matches(source: Source, pattern: re.Pattern[bytes]) -> Iterator[tuple[int, re.Match[bytes]]]:
    """Yield each match with its line number."""
    line = 1
    for block in lines.blocks(source.path):
        counted = 0
        for match in pattern.finditer(block):
            line += block.count(b"\n", counted, match.start())
            counted = match.start()
            yield line, match
        line += block.count(b"\n", counted)
