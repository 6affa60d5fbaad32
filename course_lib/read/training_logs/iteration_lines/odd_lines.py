"""Takes iteration lines out of a block: whole ones fast, glued and cut ones with care."""

from __future__ import annotations

from collections.abc import Iterator

from course_lib.read import prefix
from course_lib.read.large_files.line_search import Hits
from course_lib.read.training_logs.iteration_lines.names_and_values import HEAD, fields_of

WORD = b"iteration"
_WHOLE = (b"|", b"| ", b"|\r")
_LONGEST_LINE_BYTES = 20_000

Picked = tuple[list[bytes], list[bytes], list[int]]
"""What precedes the word `iteration` on each line, the rest from it on, and line numbers from 0."""


def pick(block: bytes, hits: Hits) -> Picked:
    before: list[bytes] = []
    tails: list[bytes] = []
    line: list[int] = []
    last = -1
    columns = (hits.start.tolist(), hits.end.tolist(), hits.line.tolist(), hits.times.tolist())
    for start, end, number, times in zip(*columns, strict=True):
        if number == last:
            continue
        last = number
        at = block.find(WORD, start, end)
        tail = block[at:end]
        if times == 1 and at >= 0 and tail.endswith(_WHOLE):
            before.append(block[start:at])
            tails.append(tail)
            line.append(number)
        else:
            for text, piece in odd(block, start, end):
                before.append(text)
                tails.append(piece)
                line.append(number)
    return before, tails, line


def odd(block: bytes, start: int, end: int) -> Iterator[tuple[bytes, bytes]]:
    """A line into which several processes wrote, or which a launcher cut in two."""
    line = prefix.without_colours(block[start : min(end, start + _LONGEST_LINE_BYTES)]).rstrip()
    heads = list(HEAD.finditer(line))
    for number, head in enumerate(heads):
        stop = heads[number + 1].start() if number + 1 < len(heads) else len(line)
        tail = line[head.start() : stop]
        if stop == len(line) and not tail.endswith(b"|"):
            tail = _joined(tail, block, end + 1)
        text = line[heads[number - 1].end() : head.start()] if number else line[: head.start()]
        yield text[text.rfind(b"|") + 1 :] if number else text, tail


def _joined(tail: bytes, block: bytes, start: int) -> bytes:
    """The tail with the next line, where that completes it."""
    end = block.find(b"\n", start)
    following = block[start : end if end >= 0 else len(block)][:2000]
    rest = following[prefix.label_length(following) :]
    if b"|" not in rest or HEAD.search(rest):
        return tail
    joined = (tail + rest).rstrip()
    alone, together = fields_of(tail), fields_of(joined)
    grown = alone is not None and together is not None and len(together) > len(alone)
    return joined if grown and joined.endswith(b"|") else tail
