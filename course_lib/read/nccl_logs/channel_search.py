"""Channel lines of a block as columns: who printed them, the channel, and a number for the rest.

Texts are not compared but hashed (64 bits); each different one is parsed once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from course_lib.read.large_files.eight_bytes import (
    WORD,
    Ints,
    Words,
    eight_digits,
    every,
    first_bytes,
    first_mark,
    is_byte,
    not_digits,
    word,
)
from course_lib.read.large_files.line_search import Finder, newlines_of

Hashes = npt.NDArray[np.uint64]
NEEDLE = b" NCCL INFO Channel "
_FINDER = Finder([NEEDLE])
_NEEDLE = [
    (offset, np.frombuffer(NEEDLE, np.uint64, 1, offset)[0])
    for offset in (0, WORD, len(NEEDLE) - WORD)
]
_MOST_GUESSES, _MOST_LOOKS = 16, 1000
_LONGEST_BYTES, _LONGEST_WORDS = 400, 50
_FACTORS = (np.random.default_rng(1).integers(1, 2**63, _LONGEST_WORDS, np.int64) * 2 + 1).astype(
    np.uint64
)
_MASKS = first_bytes(
    np.clip(np.arange(_LONGEST_BYTES + 1)[:, None] - WORD * np.arange(_LONGEST_WORDS), 0, WORD)
)
"""For each length: what of its words belongs to a text."""
_BITS = np.uint64(8 * WORD)
_COLON, _THREE_BYTES = np.uint64(int.from_bytes(b" : ", "little")), np.uint64(0xFFFFFF)


@dataclass(frozen=True)
class Texts:
    """The different texts of a block; `code` says for every line which of them it has."""

    code: Ints
    text: list[bytes]
    hashes: Hashes


@dataclass(frozen=True)
class ChannelBlock:
    """`line` counts from 0 in the block; `rest` are the other lines. `place` says where the channel
    is named."""

    line: Ints
    channel: Ints
    place: Ints
    head: Texts
    link: Texts
    rest: list[tuple[int, bytes]]
    lines: int

    def name(self, row: int, block: bytes) -> bytes:
        """The channel as it is written: `3`, `03/16`."""
        start = int(self.place[row])
        return block[start : start + WORD].split(b" ")[0]


class ChannelSearch:
    """`channel_lines`, as a search that may be done in two processes."""

    BLOCK_BYTES = 1 << 20

    def __call__(self, block: bytes, _: None) -> ChannelBlock:
        return channel_lines(block)


def channel_lines(block: bytes) -> ChannelBlock:
    newlines = newlines_of(block)
    whole = block.endswith(b"\n") or not block
    start = np.concatenate(([0], newlines + 1))[: len(newlines) + (not whole)]
    end = newlines if whole else np.append(newlines, len(block))
    words = np.frombuffer(
        block + bytes(_LONGEST_BYTES + WORD), np.uint64, (len(block) + _LONGEST_BYTES) // WORD
    )
    place = _places(block, words, start, end)
    line = np.flatnonzero(place >= 0)
    after = place[line] + len(NEEDLE)
    channel, link = _numbers(words, after, end[line])
    good = (link > 0) & (place[line] - start[line] < _LONGEST_BYTES)
    good &= end[line] - link < _LONGEST_BYTES
    line, link = line[good], link[good]
    rest = np.ones(len(start), np.bool_)
    rest[line] = False
    others = np.flatnonzero(rest)
    spans = zip(*(of.tolist() for of in (others, start[others], end[others])), strict=True)
    return ChannelBlock(
        line=line,
        channel=channel[good],
        place=after[good],
        head=_texts(block, words, start[line], place[line]),
        link=_texts(block, words, link, end[line]),
        rest=[(number, block[begin:stop]) for number, begin, stop in spans],
        lines=len(start),
    )


def _places(block: bytes, words: Words, start: Ints, end: Ints) -> Ints:
    """Where the needle stands in each line (-1: nowhere). In most lines it does so as far from
    the start as in a line before."""
    place = np.full(len(start), -1, np.int64)
    left = np.arange(len(start))
    for _ in range(_MOST_GUESSES):
        looks = left[:_MOST_LOOKS]
        spans = zip(start[looks].tolist(), end[looks].tolist(), strict=True)
        places = (block.find(NEEDLE, begin, stop) for begin, stop in spans)
        first = next((item for item in enumerate(places) if item[1] >= 0), None)
        if first is None:
            left = left[_MOST_LOOKS:]
            break
        left = left[first[0] :]
        at = start[left] + (first[1] - start[left[0]])
        found = _is_needle(words, at) & (at + len(NEEDLE) <= end[left])
        place[left[found]] = at[found]
        left = left[~found]
    if len(left):
        hits = _FINDER.find(block)
        new = place[hits.line] < 0
        place[hits.line[new]] = hits.position[new]
    return place


def _is_needle(words: Words, at: Ints) -> npt.NDArray[np.bool_]:
    at = np.minimum(at, (len(words) - 2) * WORD - len(NEEDLE))
    same = np.ones(len(at), np.bool_)
    for offset, part in _NEEDLE:
        same &= word(words, at + offset) == part
    return same


def _numbers(words: Words, at: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The channel that is written at `at`, and where the text after ` : ` begins (0: nowhere)."""
    text = word(words, at)
    values = text ^ every("0")
    digits = first_mark(not_digits(values))
    colon = first_mark(is_byte(text, ":"))
    around = word(words, at + np.maximum(colon - 1, 0)) & _THREE_BYTES
    link = at + colon + 2
    good = (digits > 0) & (colon > digits) & (colon < WORD) & (around == _COLON) & (link < end)
    number = eight_digits(values << (_BITS - (digits << 3).astype(np.uint64)))
    return number, np.where(good, link, 0)


def _texts(block: bytes, words: Words, start: Ints, end: Ints) -> Texts:
    if not len(start):
        return Texts(start, [], np.zeros(0, np.uint64))
    hashes = _hashes(words, start, end - start)
    first = np.concatenate(([True], hashes[1:] != hashes[:-1]))  # ranks print in runs
    runs = np.flatnonzero(first)
    known, place, code = np.unique(hashes[runs], return_index=True, return_inverse=True)
    spans = zip(start[runs[place]].tolist(), end[runs[place]].tolist(), strict=True)
    texts = [block[begin:stop] for begin, stop in spans]
    return Texts(code[np.cumsum(first) - 1], texts, known)


def _hashes(words: Words, start: Ints, length: Ints) -> Hashes:
    width = -(-int(length.max()) // WORD)
    text = words.view(np.uint8)
    every = np.ndarray((len(text) - WORD * width + 1, WORD * width), np.uint8, text, strides=(1, 1))
    rows = every[start].view(np.uint64)
    rows &= np.ascontiguousarray(_MASKS[:, :width])[length]
    return np.asarray(length.astype(np.uint64) + rows @ _FACTORS[:width])
