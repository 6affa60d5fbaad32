"""Damages logs, JSON, pickles and compressed files in ways that keep most of their form."""

from __future__ import annotations

import copy
import gzip
import json
import pickle
import random
import re
import zlib
from collections.abc import Callable
from typing import Any

HOSTILE_NUMBERS = (
    b"-1", b"0", b"1e999", b"-1e308", b"nan", b"-inf", b"9" * 400, b"18446744073709551616",
    b"-9223372036854775809", b"2147483648", b"0x7f", b"1_000", b"1.2.3", b"1e-400", b"", b"--5",
    "٣".encode(), b"00000000000000000000001",
)  # fmt: skip
HOSTILE_BYTES = (
    b"\x00", b"\xff\xfe", b"\x1b[31m", b"\x1b]0;title\x07", b"\r", b"\r\n", b"\n", b"|", b": ",
    "已".encode(), b"\xed\xa0\x80", b"[" * 300, b"(" * 300, b" " * 5000, b"-> " * 300, b"\\", b'"',
)  # fmt: skip
HOSTILE_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, float("nan"), float("inf"), -float("inf"), 10**400, -(2**63) - 1,
    2**64, 1e308, "", "nan", "x" * 5000, "\ud800", [], {}, [[]], {"a": {}}, [None] * 50, "0x1f",
    "9" * 40, -(10**18), 2**31, 5e-324,
)  # fmt: skip
_NUMBER = re.compile(rb"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def text(random_: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """A log with a few lines, numbers or bytes changed."""
    lines = data.split(b"\n")
    if len(lines) > 400:
        begin = random_.randrange(len(lines) - 300)
        lines = lines[begin : begin + 300]
    for _ in range(random_.choice((1, 1, 2, 5, 20))):
        random_.choice(_OF_LINES)(random_, lines, others)
    data = b"\n".join(lines)
    for _ in range(random_.choice((0, 0, 1, 3))):
        data = random_.choice(_OF_BYTES)(random_, data)
    return data


def _some(random_: random.Random, lines: list[bytes]) -> int:
    if not lines:
        lines.append(b"")
    return random_.randrange(len(lines))


def _number(random_: random.Random, lines: list[bytes], _: list[bytes]) -> None:
    at = _some(random_, lines)
    if found := list(_NUMBER.finditer(lines[at])):
        match = random_.choice(found)
        new = random_.choice(HOSTILE_NUMBERS)
        lines[at] = lines[at][: match.start()] + new + lines[at][match.end() :]


def _drop(random_: random.Random, lines: list[bytes], _: list[bytes]) -> None:
    del lines[_some(random_, lines)]


def _repeat(random_: random.Random, lines: list[bytes], _: list[bytes]) -> None:
    at = _some(random_, lines)
    lines[at:at] = [lines[at]] * random_.choice((1, 3, 50))


def _swap(random_: random.Random, lines: list[bytes], _: list[bytes]) -> None:
    one, other = _some(random_, lines), _some(random_, lines)
    lines[one], lines[other] = lines[other], lines[one]


def _glue(random_: random.Random, lines: list[bytes], _: list[bytes]) -> None:
    at = _some(random_, lines)
    cut = random_.randrange(len(lines[at]) + 1)
    other = lines[_some(random_, lines)]
    lines[at] = lines[at][:cut] + other + lines[at][cut:]


def _wrap(random_: random.Random, lines: list[bytes], _: list[bytes]) -> None:
    at = _some(random_, lines)
    cut = random_.randrange(len(lines[at]) + 1)
    lines[at : at + 1] = [lines[at][:cut], lines[at][cut:]]


def _label(random_: random.Random, lines: list[bytes], _: list[bytes]) -> None:
    label = random_.choice(
        (b"%d: ", b"[default%d]:", b"[rank%d]: ", b"[%d]: ", b"[1,%d]<stdout>:", b"node%d: ")
    )
    for at in range(_some(random_, lines), len(lines)):
        lines[at] = label % random_.randrange(10 ** random_.choice((1, 2, 9))) + lines[at]


def _strange(random_: random.Random, lines: list[bytes], others: list[bytes]) -> None:
    if not others:
        return
    strange = random_.choice(others).split(b"\n")
    begin = random_.randrange(len(strange))
    at = _some(random_, lines)
    lines[at:at] = strange[begin : begin + random_.choice((1, 5, 40))]


_OF_LINES = (_number, _number, _number, _drop, _repeat, _swap, _glue, _wrap, _label, _strange)


def _cut(random_: random.Random, data: bytes) -> bytes:
    return data[: random_.randrange(len(data) + 1)]


def _insert(random_: random.Random, data: bytes) -> bytes:
    at = random_.randrange(len(data) + 1)
    return data[:at] + random_.choice(HOSTILE_BYTES) + data[at:]


def _flip(random_: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = random_.randrange(len(data))
    return data[:at] + bytes([random_.randrange(256)]) + data[at + 1 :]


def _noise(random_: random.Random, data: bytes) -> bytes:
    at = random_.randrange(len(data) + 1)
    return data[:at] + random_.randbytes(random_.choice((1, 8, 200))) + data[at:]


def _endless(random_: random.Random, data: bytes) -> bytes:
    """One piece again and again, without a newline: a line of some hundred kilobytes."""
    at = random_.randrange(len(data) + 1)
    piece = data[at : at + random_.choice((1, 7, 60))].replace(b"\n", b" ")
    return data[:at] + piece * random_.choice((100, 5000)) + data[at:]


_OF_BYTES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    _cut, _insert, _insert, _flip, _flip, _noise, _endless,
)  # fmt: skip


def value(random_: random.Random, data: Any, depth: int = 0) -> Any:
    """Replaces, drops or repeats one part of nested lists and dictionaries, in place if it can."""
    if not isinstance(data, list | dict) or not data or random_.random() < 0.04 * depth:
        return copy.deepcopy(random_.choice(HOSTILE_VALUES))
    keys = list(data) if isinstance(data, dict) else range(len(data))
    key = random_.choice(keys)
    turn = random_.random()
    if turn < 0.08:
        del data[key]
    elif turn < 0.14 and isinstance(data, list):
        data.insert(key, data[random_.choice(keys)])
    elif turn < 0.18 and isinstance(data, dict):
        data[random_.choice(("", "ts", "args", 5, "x" * 300))] = data.pop(key)
    else:
        data[key] = value(random_, data[key], depth + 1)
    return data


def json_text(random_: random.Random, data: Any, others: list[bytes]) -> bytes:
    for _ in range(random_.choice((1, 2, 5, 20))):
        data = value(random_, data)
    found = _dumped(data)
    if random_.random() < 0.06:
        depth = random_.choice((50, 2000, 200_000))
        found = found.replace(b"1", b"[" * depth + b"]" * depth, 1)
    return text(random_, found, others) if random_.random() < 0.3 else found


def json_lines(random_: random.Random, data: list[Any], others: list[bytes]) -> bytes:
    for _ in range(random_.choice((1, 2, 5, 20))):
        if data:
            at = random_.randrange(len(data))
            data[at] = value(random_, data[at])
    found = b"\n".join(map(_dumped, data))
    return text(random_, found, others) if random_.random() < 0.3 else found


def _dumped(data: Any) -> bytes:
    try:
        return json.dumps(data).encode("utf-8", "surrogatepass")
    except (TypeError, RecursionError):
        return b'{"a": [}'


def pickled(random_: random.Random, data: Any, others: list[bytes]) -> bytes:
    for _ in range(random_.choice((1, 2, 5, 20))):
        data = value(random_, data)
    found = pickle.dumps(data, random_.choice((0, 2, 4, 5)))
    for _ in range(random_.choice((0, 0, 1, 3))):
        found = random_.choice(_OF_BYTES)(random_, found)
    return found if random_.random() < 0.95 else random_.choice(PICKLE_BOMBS)


PICKLE_BOMBS = (
    b"\x80\x04\x8e" + (2**62).to_bytes(8, "little"),  # a text of four exabytes
    b"\x80\x04\x8d" + (2**40).to_bytes(8, "little") + b"x",
    b"\x80\x04\x8b" + (2**31 - 1).to_bytes(4, "little"),  # a number of two gigabytes
    b"\x80\x04r" + (2**32 - 1).to_bytes(4, "little") + b".",  # the last of four billion places
    b"\x80\x04Nr" + (2**31).to_bytes(4, "little") + b".",
    b"\x80\x04]\x94" + b"(h\x00h\x00h\x00h\x00e0]\x94" * 50 + b".",
    b"\x80\x04]" + b"2e" * 3000 + b".",
    b"(" * 100_000 + b".",
    b"]" * 200_000 + b"a" * 199_999 + b".",
    b"\x80\x04I" + b"9" * 200_000 + b"\n.",
    b"\x80\x04](" + b"K\x01" + b"2" * 2_000_000 + b"e.",
    b"\x80\x04}\x94\x8c\x01a\x94h\x00s" + b".",  # contains itself
    b"\x80\x04]\x94h\x00a.",
)


def packed(random_: random.Random, data: bytes) -> bytes:
    """Compressed, whole, cut or damaged, alone or twice; or small on disk and huge in memory."""
    turn = random_.random()
    if turn < 0.01:
        data = data + random_.choice((b"\n", b"a", b"[", b"0 \n")) * 150_000_000
    found = gzip.compress(data, 1)
    if turn > 0.85:
        return found[: random_.randrange(len(found))]
    if turn > 0.75:
        return _flip(random_, found)
    if turn > 0.70:
        return found + found
    return found if turn > 0.05 else b"\x1f\x8b" + zlib.compress(data)
