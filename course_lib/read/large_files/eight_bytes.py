"""Eight bytes at a time: text of many lines, taken from a block and read as numbers at once.

The first byte of a text is the lowest of its word. A mark is the highest bit of a byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
WORD = 8
MARGIN = 4 * WORD
"""Texts are also taken from their end, and with the word that follows: so near to the ends of a
block nothing can be read."""
MOST_DIGITS = 15
"""More than these need not fit a float exactly."""


def every(byte: int | str) -> np.uint64:
    """A word of this byte alone."""
    number = ord(byte) if isinstance(byte, str) else byte
    return np.uint64(int.from_bytes([number] * WORD, "little"))


_BITS, _ONE, _SEVEN = np.uint64(8 * WORD), np.uint64(1), np.uint64(7)
_LOW, _MARK, _ABOVE_NINE, _FULL = every(0x7F), every(0x80), every(0x80 - 10), np.uint64(0xFF)
_ZEROS, _SPACES = every("0"), every(" ")
_EIGHT_DIGITS = [
    (np.uint64(8 * size), np.uint64(10**size << 8 * size | 1), np.uint64(mask))
    for size, mask in ((1, 0x00FF00FF00FF00FF), (2, 0x0000FFFF0000FFFF), (4, 0xFFFFFFFF))
]
_LAST = np.array([((1 << 64) - 1) ^ ((1 << 8 * (8 - n)) - 1) for n in range(9)], np.uint64)
_FIRST = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
_POWERS: Floats = np.array([10.0**power for power in range(23)])


def words_of(block: bytes) -> Words:
    """The block but for an end of less than a word."""
    return np.frombuffer(block, np.uint64, len(block) // WORD)


def word(words: Words, at: Ints) -> Words:
    """The eight bytes that begin at each place."""
    shift = ((at & 7) << 3).astype(np.uint64)
    at = at >> 3
    return (words[at] >> shift) | (words[at + 1] << (_BITS - shift))


def first_mark(marked: Words) -> Ints:
    """The first byte that is marked (eight: none)."""
    below = (marked & (~marked + _ONE)) - _ONE
    return np.bitwise_count(below).astype(np.int64) >> 3


def is_byte(words: Words, byte: str) -> Words:
    """Marks at the bytes that are this one."""
    other = words ^ every(byte)
    return ~(((other & _LOW) + _LOW) | other | _LOW)


def not_digits(values: Words) -> Words:
    """Marks at the bytes that are no digit, where `values` are letters without `0`'s bits."""
    return (((values & _LOW) + _ABOVE_NINE) | values) & _MARK


def eight_digits(values: Words) -> Ints:
    """The number that eight digits make, given as bytes from 0 to 9."""
    for shift, factor, mask in _EIGHT_DIGITS:
        values = ((values * factor) >> shift) & mask
    return values.astype(np.int64)


def first_bytes(count: Any) -> Any:
    """Masks of the first bytes of a word."""
    return _FIRST[count]


@dataclass(frozen=True)
class Kind:
    """How a number is written: with an exponent (`E+07`), and perhaps in more than eight letters
    before that."""

    scientific: bool
    long: bool


def kind_of(text: bytes) -> Kind:
    scientific = text[-4:-3] in (b"E", b"e") and len(text) > 4
    return Kind(scientific, len(text) - 4 * scientific > WORD)


def numbers(words: Words, begin: Ints, end: Ints, kind: Kind) -> tuple[Floats, Flags]:
    """Decimal numbers, each at the end of its span, behind blanks; and where this could be read,
    to the last bit as `float` does."""
    end = end - (words_byte(words, end - 1) == ord(" "))
    good, power = np.ones(len(end), np.bool_), np.zeros(len(end), np.int64)
    if kind.scientific:
        power, good = _exponents(word(words, end - WORD))
        end = end - 4
    length = end - begin
    good &= length > 0
    parts = []
    for number in range(1 + kind.long):
        mask = _LAST[np.clip(length - WORD * number, 0, WORD)]
        part = word(words, end - WORD * (number + 1))
        parts.append((part & mask) | (_SPACES & ~mask))
    before = words_byte(words, end - WORD * len(parts) - 1) == ord(" ")
    good &= (length <= WORD * len(parts)) | before
    last = parts[0].copy()
    negative = _take_signs(parts, good)
    mantissa, places = (_long if kind.long else _short)(parts, good)
    power -= places
    good &= np.abs(power) < len(_POWERS)
    power[~good] = 0
    value = mantissa / _POWERS[np.maximum(-power, 0)]
    if kind.scientific:
        value *= _POWERS[np.maximum(power, 0)]
    value = value if negative is None else np.where(negative, -value, value)
    if not kind.scientific and not good.all():
        _read_specials(last, value, good)
    return value, good


def _read_specials(last: Words, value: Floats, good: Flags) -> None:
    for text, special in ((b"nan", np.nan), (b"inf", np.inf)):
        known = _is_word(last, text)
        value[known], good[known] = special, True


def _is_word(last: Words, text: bytes) -> Flags:
    """Where nothing but this word, in whatever case, is written."""
    small = np.uint64(int.from_bytes(b"   ", "little"))
    letters = np.uint64(int.from_bytes(text, "little"))
    bits = np.uint64(8 * (WORD - len(text)))
    alone = (last ^ _SPACES) << (_BITS - bits) == 0
    return np.asarray(((last >> bits) | small == letters) & alone)


def words_byte(words: Words, at: Ints) -> Any:
    return words.view(np.uint8)[at]


def _exponents(tail: Words) -> tuple[Ints, Flags]:
    """Of texts that end with `E+07` or the like, given their last eight letters."""
    end = (tail >> np.uint64(32)).astype(np.uint32).view(np.uint8).reshape(-1, 4).astype(np.int64)
    tens, ones = end[:, 2] - ord("0"), end[:, 3] - ord("0")
    minus, plus = end[:, 1] == ord("-"), end[:, 1] == ord("+")
    good = ((end[:, 0] | 0x20) == ord("e")) & (minus | plus)
    good &= (tens >= 0) & (tens < 10) & (ones >= 0) & (ones < 10)
    return np.where(minus, -1, 1) * (10 * tens + ones), good


def _take_signs(parts: list[Words], good: Flags) -> Flags | None:
    """Which numbers are negative (None: no one); their signs become blanks."""
    marks = [is_byte(part, "-") for part in parts]
    if not any(mark.any() for mark in marks):
        return None
    count = sum(np.bitwise_count(mark).astype(np.int64) for mark in marks)
    good &= count < 2
    for part, mark in zip(parts, marks, strict=True):
        part ^= (mark >> _SEVEN) * np.uint64(ord("-") ^ ord(" "))  # noqa: PLW2901
    return np.asarray(count == 1)


def _values(part: Words, good: Flags) -> tuple[Words, Words, Words]:
    """Digits as bytes from 0 to 9, blanks and the point as 0; where there are blanks (whole bytes)
    and where the point is (a mark)."""
    values = part ^ _ZEROS
    blanks = (is_byte(values, "\x10") >> _SEVEN) * _FULL
    points = is_byte(values, "\x1e")
    values &= ~(blanks | ((points >> _SEVEN) * _FULL))
    good &= (not_digits(values) | (points & (points - _ONE))) == 0
    good &= (blanks & (blanks + _ONE)) == 0
    return values, blanks, points


def _without_point(values: Words, points: Words) -> tuple[Words, Ints]:
    """What stands before the point moves one place towards it; and the decimals after it."""
    below = points - _ONE
    before = np.where(points == 0, np.uint64(0), below >> _SEVEN)
    moved = (values & ~before) | ((values & before) << np.uint64(8))
    places = (WORD - 1) - (np.bitwise_count(below).astype(np.int64) >> 3)
    return moved, places


def _short(parts: list[Words], good: Flags) -> tuple[Floats, Ints]:
    """Of eight letters: all digits as one number, and how many of them follow the point."""
    values, blanks, points = _values(parts[0], good)
    good &= np.bitwise_count(blanks) < 8 * WORD - 8 * (points != 0)
    good &= (blanks >> np.uint64(63)) == 0
    values, places = _without_point(values, points)
    return eight_digits(values).astype(np.float64), np.maximum(places, 0)


def _long(parts: list[Words], good: Flags) -> tuple[Floats, Ints]:
    """The same of sixteen."""
    high, blank_high, point_high = _values(parts[0], good)
    low, blank_low, point_low = _values(parts[1], good)
    good &= (blank_high == 0) | (blank_low == ~np.uint64(0))
    good &= (point_high == 0) | (point_low == 0)
    good &= (blank_high >> np.uint64(63)) == 0
    count = np.bitwise_count(blank_high).astype(np.int64) + np.bitwise_count(blank_low)
    good &= count + 8 * ((point_high | point_low) != 0) < 16 * WORD
    high, places = _without_point(high, point_high)
    inside = point_high != 0
    high = np.where(inside, high | (low >> np.uint64(56)), high)
    low, places_low = _without_point(np.where(inside, low << np.uint64(8), low), point_low)
    places = np.where(inside, places, np.where(point_low != 0, WORD + places_low, 0))
    whole = eight_digits(low) * 10**WORD + eight_digits(high)
    good &= whole < 10**MOST_DIGITS
    return whole.astype(np.float64), places
