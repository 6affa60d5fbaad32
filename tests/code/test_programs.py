"""Every program starts from any folder."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).resolve().parents[2] / "code").glob("*.py"))


@pytest.mark.many(4)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_finds_its_modules(program, tmp_path):
    (tmp_path / "dataset").mkdir()  # as `data`, `training` … may be called where a learner works
    done = subprocess.run(
        [sys.executable, str(program), "--help"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {program.name}")


@pytest.mark.many(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "flags", "told"),
    [
        ("accumulate_ddp", "--width 0 --sync now --speed", ["--sync now", "--width 0", "--speed"]),
        ("measure_links", "--repeat -1 --longest-s nan", ["--longest-s nan", "--repeat -1"]),
        ("measure_links", "--max-bytes 4 --min-bytes 8", ["--max-bytes 4 is less than"]),
        ("pretrain_gpt", "--lr 0 --tensor-model-parallel-size 3 --profile-ranks 2",
         ["--lr 0", "2 devices cannot be split"]),
        ("pretrain_gpt", "--lr 0 --profile-ranks 2", ["--lr 0", "--profile-ranks 2"]),
        ("train_vit", "--epochs 0 --tf32 maybe", ["--epochs 0", "--tf32 maybe"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_at_once_by_one_rank(program, flags, told):
    """Two ranks run without a launcher."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    file = next(path for path in PROGRAMS if path.stem == program)
    ranks = [
        subprocess.Popen(
            [sys.executable, str(file), *flags.split()], stderr=subprocess.PIPE, text=True,
            env={**place, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]  # fmt: skip
    texts = [rank.communicate(timeout=120)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [2, 2], texts
    [said] = [text for text in texts if text]
    lines = said.splitlines()
    assert len(lines) == len(told)
    for begin in told:
        assert any(f"{program}.py: error: " in line and begin in line for line in lines), said


NO_COMPILER = """
import sys
sys.path.insert(0, {folder!r})
import pretrain_gpt
pretrain_gpt.main({flags!r}.split())
for name in ("torch._dynamo", "torch.distributed.tensor", "torch.distributed.checkpoint"):
    assert name not in sys.modules, name
"""
TINY = (
    "--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --micro-batch-size 1 "
    "--global-batch-size 2 --train-iters 2 --mock-data --vocab-size 64 --eval-iters 1"
)


def test_a_rank_starts_without_the_compiler(repository, tmp_path):
    """Its imports would take more than a second of every start, and most runs do not need them."""
    text = NO_COMPILER.format(folder=str(repository / "code"), flags=TINY)
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
