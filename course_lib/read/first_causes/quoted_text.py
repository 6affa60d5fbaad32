"""Printed text that is not a program's own message: source, configuration, help, listings.

The form of a line, or the lines around it, show this."""

from __future__ import annotations

import re
from collections.abc import Iterator

from course_lib.read import prefix

# Prefixes of grep, cat -n, diff and `set -x`.
_LISTED = re.compile(
    rb"(?:[\w./-]{1,200}\.\w{1,6}[:-]\d{1,7}[:-](?! \S)|"
    rb"\d{1,7}(?: ?[|\t]|:(?! \S))|[+>-]{1,4} |\| ){1,3}[ \t]{0,80}"
)
# A speaker comes first: a logger, a command, an exception.
_SAID = re.compile(
    rb"(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Za-z_]\w{0,80}"
    rb"(?:Error|Exception|Interrupt|Exit|Failure|Timeout)(?:: |:?$)|"
    rb"[^\"'(=#`]{0,120}\b(?:ERROR|FATAL|CRITICAL|NCCL WARN)\b|\[?[EF] ?\d{3,4} |"
    rb"[\w./:\[\] -]{1,100}: (?:fatal|[Ee]rror|warning)\b|\*\*\* |what\(\): |"
    rb"(?:Killed|Aborted|Terminated|Segmentation fault|Bus error)\b(?:$| ?\(|\s{3})|JobState="
)
_RECORD = re.compile(rb"\{\s*[\"'].*\}$")
_OF_ERROR = re.compile(
    rb"[\"'](?:level|levelname|severity|lvl)[\"']: ?[\"'](?i:error|critical|fatal)\b|"
    rb"[\"'](?:error|exception|exc_info|traceback)[\"']: ?[\"']"
)
# Comments, strings, statements, options, entries of a configuration, and incomplete lines.
_CODE = re.compile(
    rb"\d{1,3}\)? +(?:SIG|E)[A-Z\d]{2,}\b|#|//|/\*|\*[ /]|@\w|[\]})]|-- |[rbfuRBFU]{0,2}[\"']|```|"
    rb"\[?--?[A-Za-z][\w-]*(?:[ =,\]<]|$)|from [\w.]+ import |"
    rb"(?:def|except|raise|return|assert|import|elif|throw|catch|yield|await|echo|printf|trap)\b"
    rb"[ ({\"'].|"
    rb"(?:class|local|export|static|const|void|int|typedef|struct|namespace|template|print)\b"
    rb".{0,400}[=:;({]|"
    rb"(?:if|for|while|with|else|try|except|finally|match|case)\b.{0,400}(?:[:{(,\\]|then|do)$|"
    rb"[\w.\[\]\"'-]{1,100}(?:: [\w.\[\], |]{1,60})? ?[-+*/|]?= ?[^=\s\d.-]|"
    rb"[\w.]{1,100}\(.{0,4000}[]()\"',;:{}\\]$|[\w-]{1,80} \.{3,}|<[!/\w][^>]{0,400}>$|"
    rb"(?:- )?[\w.-]{1,60}:(?: [\[{\"'|>].{0,400}| (?:true|false|null|None|True|False))?$|"
    rb"[^{].{0,4000}[;{}(\[,\\]$"
)
_TRACED = re.compile(rb"Traceback \(most|File \"|\^+$|~")
_PASSED = re.compile(rb"(?:\S{1,40}::)\S{1,200}.{0,200} (?:PASSED|SKIPPED|XFAIL|XPASS)\b")
_NEAR_BYTES, _NEAR_LINES, _FEWEST = 2000, 8, 2
_DEEP = 4


def is_quoted(text: bytes, start: int, end: int) -> bool:
    """Tell whether the line between two positions is quoted text."""
    body, depth = _body(text[start : min(end, start + 4000)])
    if _PASSED.match(body) or _RECORD.match(body):
        return not _OF_ERROR.search(body)
    if _SAID.match(body) and (depth < 2 or body.startswith(b"JobState=")):
        return False
    if is_code(body):
        return True
    if depth >= _DEEP and not re.match(rb"[a-z_()]{1,20} *: ", body):
        return not _SAID.match(body) or not _frame_above(text, start)
    return all(
        len(near) >= _FEWEST and 5 * sum(near) >= 3 * len(near)
        for near in _code_near(text, start, end)
    )


def is_code(body: bytes) -> bool:
    listed = _LISTED.match(body)
    return bool(_CODE.match(body) or (listed and _CODE.match(body, listed.end())))


def _body(line: bytes) -> tuple[bytes, int]:
    """Return the line without the launcher's prefix, and its indentation."""
    line = prefix.without_colours(line).rstrip()
    length = prefix.parse(line).length
    head = line[:length]
    return line[length:], len(head) - len(head.rstrip(b" \t"))


def _code_near(text: bytes, start: int, end: int) -> Iterator[list[bool]]:
    """Yield which lines before and after look like code; lines of tracebacks do not count."""
    before = text[max(0, start - _NEAR_BYTES) : start].splitlines()[::-1]
    for lines in (before, text[end : end + _NEAR_BYTES].splitlines()):
        bodies = [body for line in lines if (body := _body(line)[0])][:_NEAR_LINES]
        yield [
            is_code(body) and not _SAID.match(body)
            for body, other in zip(bodies, [*bodies[1:], b""], strict=False)
            if not _TRACED.match(body) and not (lines is before and _TRACED.match(other))
        ]


def _frame_above(text: bytes, start: int) -> bool:
    return b'File "' in text[max(0, start - 400) : start]
