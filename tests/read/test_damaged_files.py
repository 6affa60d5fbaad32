"""No content raises an error: files of every kind, damaged so that they keep most of their form."""

from __future__ import annotations

import copy
import gzip
import json
import os
import pickle
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from course_lib import read

from . import small_files as small

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


def text(random_: random.Random, data: bytes) -> bytes:
    """Return a log with a few lines, numbers or bytes changed."""
    lines = data.split(b"\n")
    for _ in range(random_.choice((1, 2, 5, 20))):
        one, other = (random_.randrange(len(lines)) for _ in range(2))
        cut = random_.randrange(len(lines[one]) + 1)
        turn = random_.choice(("number", "repeat", "swap", "glue", "wrap", "label"))
        if turn == "number" and (found := list(_NUMBER.finditer(lines[one]))):
            begin, end = random_.choice(found).span()
            lines[one] = lines[one][:begin] + random_.choice(HOSTILE_NUMBERS) + lines[one][end:]
        elif turn == "repeat":
            lines[one:one] = [lines[one]] * random_.choice((3, 50))
        elif turn == "swap":
            lines[one], lines[other] = lines[other], lines[one]
        elif turn == "glue":
            lines[one] = lines[one][:cut] + lines[other] + lines[one][cut:]
        elif turn == "wrap":
            lines[one : one + 1] = [lines[one][:cut], lines[one][cut:]]
        else:
            lines[one] = random_.choice((b"7: ", b"[default3]:", b"[rank999999999]: ")) + lines[one]
    return changed(random_, b"\n".join(lines))


def changed(random_: random.Random, data: bytes) -> bytes:
    """Cut, insert or repeat a few bytes without a newline."""
    for _ in range(random_.choice((0, 1, 3))):
        at = random_.randrange(len(data) + 1)
        piece = data[at : at + 60].replace(b"\n", b" ") * 500
        part = random_.choice((random_.choice(HOSTILE_BYTES), random_.randbytes(8), piece))
        data = data[:at] + random_.choice((part + data[at:], part + data[at + 1 :], b""))
    return data


def value(random_: random.Random, data: Any, depth: int = 0) -> Any:
    """Replace, drop or repeat one part of nested lists and dictionaries, in place if possible."""
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


def json_text(random_: random.Random, data: Any) -> bytes:
    for _ in range(random_.choice((1, 5, 20))):
        data = value(random_, data)
    found = _dumped(data)
    if random_.random() < 0.06:
        found = found.replace(b"1", b"[" * 200_000 + b"]" * 200_000, 1)
    return text(random_, found) if random_.random() < 0.3 else found


def json_lines(random_: random.Random, data: list[Any]) -> bytes:
    for _ in range(random_.choice((1, 5, 20))):
        at = random_.randrange(len(data))
        data[at] = value(random_, data[at])
    return text(random_, b"\n".join(map(_dumped, data)))


def _dumped(data: Any) -> bytes:
    try:
        return json.dumps(data).encode("utf-8", "surrogatepass")
    except (TypeError, RecursionError):
        return b'{"a": [}'


def pickled(random_: random.Random, data: Any) -> bytes:
    for _ in range(random_.choice((1, 5, 20))):
        data = value(random_, data)
    return changed(random_, pickle.dumps(data, random_.choice((0, 2, 4, 5))))


def ask(thing: object, names: str) -> None:
    """Ask for every result, because many are computed only when they are asked for."""
    for name in names.split():
        getattr(thing, name)


def use_training(path: Path) -> None:
    log = read.training_log(path)
    ask(log, "finished skipped nan parameter_count losses total_iterations last_iteration")
    str(log)
    follow = read.TrainingReader()
    data = path.read_bytes()[:300_000]
    for at in range(0, len(data), 7000):
        follow.feed(data[at : at + 7000])
    follow.result()


def use_nccl(path: Path) -> None:
    log = read.nccl(path)
    ask(log, "transports world_size")
    for communicator in [None, *log.communicators["communicator"][:3]]:
        log.matrix(communicator)


def use_failure(path: Path) -> None:
    str(read.failure(path))
    read.failures([path])


def use_memory(path: Path) -> None:
    memory = read.memory(path)
    ask(memory, "peaks")
    for part in memory:
        assert part.peak_bytes == max(part.total_bytes, default=0)
        ask(part, "table peak_composition reserved phases")
        part.downsample(50)


def use_profile(path: Path) -> None:
    profile = read.profile(path)
    ask(profile, "step_time overlap operators kernels communication spans ranges workers")
    ask(profile, "recommendations tensor_core_share gpu_utilisation device_kind")
    ask(profile.memory, "peaks")


def use_links(path: Path) -> None:
    ask(read.links(path), "latency_us bandwidth_gb_s fits table all_reduce_ms")


def use_monitor(path: Path) -> None:
    ask(read.monitor(path), "load ranks devices")


Kind = tuple[str, Callable[[random.Random, Any], bytes], tuple[Any, ...], Callable[[Path], object]]
# The name of the file, how its content is damaged, that content, and what is done with the file.
KINDS: dict[str, Kind] = {
    "training_log": ("rank3.out", text, (small.TRAINING.encode(),), use_training),
    "nccl": ("a.log", text, (small.NCCL.encode(),), use_nccl),
    "failure": ("a.log", text, (small.FAILURE.encode(), small.TRAINING.encode()), use_failure),
    "memory": ("rank0.jsonl", json_lines, (small.COURSE_MEMORY,), use_memory),
    "memory_profile": ("rank0.pt.trace.json", json_text, (small.TRACE,), use_memory),
    "timeline": ("a.raw.json", json_text, (small.TIMELINE,), use_memory),
    "snapshot": ("a.pickle", pickled, (small.SNAPSHOT,), use_memory),
    "profile": ("n1_5.55.pt.trace.json", json_text, (small.TRACE,), use_profile),
    "links": ("links.json", json_text, (small.LINKS,), use_links),
    "monitor": ("n1.jsonl", json_lines, (small.MONITOR,), use_monitor),
}


@pytest.mark.parametrize("reader", KINDS)
def test_damaged_files_do_not_raise(tmp_path, reader):
    name, damage, contents, use = KINDS[reader]
    for number in range(15):
        random_ = random.Random(f"{reader} {number}")
        data = damage(random_, copy.deepcopy(random_.choice(contents)))
        packed = random_.random() < 0.15
        path = tmp_path / (name + ".gz" * packed)
        path.write_bytes(changed(random_, gzip.compress(data, 1)) if packed else data)
        use(path)
        path.unlink()


READERS = (read.attempts, read.contents, read.diary, read.failure, read.failures, read.flight,
           read.links, read.memory, read.monitor, read.nccl, read.profile,
           read.training_log)  # fmt: skip


@pytest.mark.timeout(60)
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_a_pipe_and_a_device_are_no_files_and_are_not_waited_for(reader, tmp_path):
    os.mkfifo(tmp_path / "out.log")
    for path in (tmp_path / "out.log", Path("/dev/zero")):
        with pytest.raises(FileNotFoundError):
            reader(path)
