"""A log reads the same, whichever shell wrote it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import tarfile

import pytest

from course_lib import read
from course_lib.read import lines

LOG = (
    "naïve start, ünïcode ✓ 🌍\r\n"
    " [2026-04-15 11:19:02] iteration        1/      10 | consumed samples:            4 | "
    "elapsed time per iteration (ms): 100.0 | learning rate: 1.0E-04 | global batch size:     4 | "
    "lm loss: 9.0E+00 | loss scale: 1.0 | number of skipped iterations:   0 | "
    "number of nan iterations:   0 |\r\n"
    "[rank2]: Traceback (most recent call last):\r\n"
    '[rank2]:   File "train.py", line 3, in <module>\r\n'
    "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\r\n"
)


def _archive(kind: str) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=f"w:{kind}") as archive:
        member = tarfile.TarInfo("logs/out.log")
        member.size = len(LOG.encode())
        archive.addfile(member, io.BytesIO(LOG.encode()))
    return made.getvalue()


WRITTEN = {
    "UTF-8": LOG.encode(),
    "UTF-8 with a mark": LOG.encode("utf-8-sig"),
    "packed": gzip.compress(LOG.encode()),
    "bzip2": bz2.compress(LOG.encode()),
    "xz": lzma.compress(LOG.encode()),
    "tar": _archive(""),
    "tar.gz": _archive("gz"),
    "tar.xz": _archive("xz"),
}


@pytest.mark.parametrize("how", WRITTEN)
def test_a_log_is_read_in_every_encoding(tmp_path, how):
    log = tmp_path / "out.log"
    log.write_bytes(WRITTEN[how])
    failure = read.failure(log)
    assert (failure.cause, failure.rank, failure.line) == ("cuda_oom", 2, 5)
    assert read.training_log(log).iterations["lm_loss"].tolist() == [9.0]


HEALTHY = "".join(f"step {n}: loss 2.{n}\n" for n in range(99_999)).encode()
NOISE = random.Random(1).randbytes(4096)
UNREADABLE = {
    "a.log.zst": (b"\x28\xb5\x2f\xfd\x04\x58" + NOISE, "neither text nor packed"),
    "a.log.lz4": (b"\x04\x22\x4d\x18\x64\x40" + NOISE, "neither text nor packed"),
    "a.log.7z": (b"7z\xbc\xaf\x27\x1c\x00\x04" + NOISE, "neither text nor packed"),
    "a.log.Z": (b"\x1f\x9d\x90\x41" + NOISE, "neither text nor packed"),
    "a.log.zip": (b"PK\x03\x04" + NOISE, "neither text nor packed"),
    "a.log.br": (NOISE[:64], "neither text nor packed"),
    "a.log": (b"LZIP\x01\x0c" + NOISE, "neither text nor packed"),
    "a.log.gz": (gzip.compress(HEALTHY)[:-9], "damaged or cut off"),
    "a.out": (gzip.compress(HEALTHY)[:40], "damaged or cut off"),
    "a.log.bz2": (bz2.compress(HEALTHY)[:-9], "damaged or cut off"),
    "a.log.xz": (lzma.compress(HEALTHY)[:-9], "damaged or cut off"),
    "a.tgz": (b"\x00" + gzip.compress(NOISE)[1:], "neither text nor packed"),
}


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("in_folder", [False, True])
def test_a_log_that_cannot_be_unpacked_is_not_taken_for_a_healthy_one(tmp_path, name, in_folder):
    content, why = UNREADABLE[name]
    (tmp_path / name).write_bytes(content)
    (tmp_path / "rank1.log").write_bytes(HEALTHY)
    found = read.failure(tmp_path if in_folder else tmp_path / name)
    assert (found.cause, found.file) == ("not_readable", str(tmp_path / name))
    assert why in str(found)
    with pytest.warns(UserWarning, match=f"{name} was not read to its end: .*{why}"):
        read.training_log(tmp_path / name)


def test_a_core_dump_beside_the_logs_is_no_log(tmp_path):
    (tmp_path / "core").write_bytes(b"\x7fELF\x02\x01\x01" + NOISE)
    (tmp_path / "rank1").write_bytes(HEALTHY)
    assert read.failure(tmp_path) is None


@pytest.mark.parametrize("packer", [gzip, lzma])
def test_what_stands_before_the_damage_is_read(tmp_path, packer):
    waiting = "".join(f"waiting for {n} s\n" for n in range(99_999))
    (tmp_path / "a.log").write_bytes(packer.compress((LOG + waiting).encode())[:-9])
    assert read.failure(tmp_path / "a.log").line == 5


@pytest.mark.parametrize("name", ["a.log.gz", "a.log.zst"])
def test_a_name_alone_does_not_make_a_packed_file(tmp_path, name):
    (tmp_path / name).write_bytes(HEALTHY)
    assert read.failure(tmp_path / name) is None


@pytest.mark.parametrize(
    "text",
    [
        "Größe der Schicht ändert sich\n".encode("latin-1"),
        "損失 3.2\n".encode("shift-jis"),
        "损失 3.2\n".encode("gbk"),
        b"\x1b[1;31mstep\x1b[0m\b\b 7\r",
        bytes(400) + b"step 1\n",
        "loss 2.5\n".encode("utf-16-le"),
    ],
)
def test_other_alphabets_terminal_codes_and_holes_are_text(tmp_path, text):
    (tmp_path / "a.log").write_bytes(text * 20)
    assert read.failure(tmp_path / "a.log") is None


@pytest.mark.parametrize("block_bytes", [1, 7, 1 << 20])
def test_blocks_do_not_depend_on_their_size(tmp_path, monkeypatch, block_bytes):
    monkeypatch.setattr(lines, "BLOCK_BYTES", block_bytes)
    log = tmp_path / "out.log"
    log.write_bytes(gzip.compress(("ab✓🌍\n" * 3000).encode()))
    assert b"".join(lines.blocks(log)) == ("ab✓🌍\n" * 3000).encode()
